// Seeded problems in the form of ADBench's data, as files of the same names and sizes.
#pragma once

#include <cstdint>
#include <filesystem>

namespace adbench {

struct GeneratorOptions {
  std::uint64_t seed = 1;
  std::int64_t points = 1000;   // of a mixture of Gaussians
  std::int64_t vertices = 544;  // of a hand
  bool complicated = false;     // hand: points lie in triangles
};

/// Writes a problem whose kind and sizes the name of the file says: gmm_d2_K5.txt, ba1_n49_m7776_p31843.txt,
/// hand1_t26_c100.txt (and the hand's model in the folder `model` beside it) or lstm_l2_c1024.txt. Throws
/// std::runtime_error for other names.
void generate(const std::filesystem::path& file, const GeneratorOptions& options);

}  // namespace adbench
