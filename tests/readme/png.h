// PNG files, as the gallery writes them: red, green and blue in bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace loopgrad::test {

struct Png {
  std::uint32_t width = 0, height = 0;
  std::string bytes;  // of the pixels, row by row
};

/// Checks all of the file's checksums; what is wrong with it is a failure of the test, and gives no picture.
Png read_png(const std::filesystem::path& file);

/// By how much a byte differs in the mean, of 255; 255 where the pictures have other sizes, or none.
double difference(const Png& a, const Png& b);

}  // namespace loopgrad::test
