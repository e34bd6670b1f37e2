// What the tests of recurrences share.
#pragma once

#include "tests/unit/passes/expect_pass.h"

namespace loopgrad::transforms {

/// Machines that do short recurrences in pieces, in all the ways.
inline Machine small_gpu() {
  Machine machine = gpu_machine();
  machine.least_scanned = 2;
  machine.scan_tile = 1;
  machine.enough_threads = 1024;  // four rows are enough
  return machine;
}
inline Machine small_cpu() {
  Machine machine = cpu_machine();
  machine.least_scanned = 2;
  return machine;
}

inline const char* const recurrence_arrays = R"(
    program p(n, m)
      input  f32 x[n]
      input  f32 a[n]
      inout  f32 y[n]
      inout  f32 a_copy[n]
      inout  f32 z[m, n]
      inout  f32 decay
  )";

}  // namespace loopgrad::transforms
