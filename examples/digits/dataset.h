// The handwritten digits: reading, shuffling and splitting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace digits {

constexpr std::int64_t kPixels = 64;
constexpr std::int64_t kClasses = 10;

/// Images row by row with values in [0, 1], and the digit that each one shows.
struct Samples {
  std::vector<float> pixels;
  std::vector<int> labels;
  std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
};

struct Dataset {
  Samples train, test;
};

/// Reads a gzipped CSV of 64 pixels of 0..16 and a label a line, shuffles the lines and keeps a fifth for testing.
/// Throws std::runtime_error naming the file and line when it is not such a file.
Dataset load(const std::string& path, std::uint64_t seed);

}  // namespace digits
