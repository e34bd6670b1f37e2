// What this machine can do, measured now: the roofline that `compare` reports fractions of.
#pragma once

#include <cstdint>

namespace loopgrad::cli {

struct Ceilings {
  double bytes_per_second = 0;  // of a copy, read and written bytes both counted
  double flops_per_second = 0;  // f32, a fused multiply-add counts as two
};

/// Measures with `threads` OpenMP threads (0: the default). The copy works on `working_set` bytes in all, so that a
/// program that fits a cache is held against that cache. Takes about a quarter of a second.
Ceilings measure_ceilings(int threads, double working_set);

/// Of the GPU's memory (a copy far larger than its cache) and its f32 units. Throws RuntimeError(NoDevice).
Ceilings measure_device_ceilings();

}  // namespace loopgrad::cli
