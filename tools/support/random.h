// Seeded numbers that are the same on every machine (the distributions of <random> are not).
#pragma once

#include <cstdint>

namespace loopgrad::tools {

/// SplitMix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, 1), a multiple of 2^-24, so that it is the same number in f32 and f64.
  double uniform() { return static_cast<double>(next() >> 40) * 0x1p-24; }
  /// In [lower, upper).
  double uniform(double lower, double upper) { return lower + (upper - lower) * uniform(); }
  /// In [0, n); 0 for n <= 0, where there is nothing to choose from.
  std::int64_t below(std::int64_t n) {
    return n <= 0 ? 0 : static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

}  // namespace loopgrad::tools
