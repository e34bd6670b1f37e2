// Sixteen floats at a time, in whatever registers the machine has.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// The vector versions of the C library (libmvec, errors of up to 4 units in the last place), for loops marked `omp
// simd`.
extern "C" __attribute__((simd("notinbranch"))) float tanhf(float) noexcept;
extern "C" __attribute__((simd("notinbranch"))) float expf(float) noexcept;

namespace loopgrad::bench {

constexpr std::int64_t kLanes = 16;
using Vec = float __attribute__((vector_size(64)));

inline Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, const Vec& v) { std::memcpy(p, &v, sizeof v); }
inline Vec splat(float a) { return Vec{a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a}; }
inline float sum(const Vec& v) {
  float total = 0;
  for (int i = 0; i < kLanes; ++i) total += v[i];
  return total;
}

}  // namespace loopgrad::bench
