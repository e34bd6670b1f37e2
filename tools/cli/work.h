// How much a program must compute and move, from its IR: what a roofline is drawn from.
#pragma once

#include "tools/cli/buffers.h"

namespace loopgrad::cli {

struct Work {
  double flops = 0;       // f32 operations: one for each arithmetic operation, function and sum; f64 counts as two
  double bytes = 0;       // each array read or written once; of an input no more than is read
  double tape_bytes = 0;  // the program's tape arrays, where their extents depend on sizes only
  bool exact = true;      // false when a branch or a bound depends on computed data: then the figures are lower bounds
};

/// Counts by walking the loops. Bounds that read input arrays (CSR) are evaluated with `inputs`; of the two sides of a
/// data-dependent branch the cheaper one counts; a `while` counts no trip.
Work count_work(const Program& program, const Sizes& sizes, const Arrays& inputs);

}  // namespace loopgrad::cli
