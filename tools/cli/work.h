// How much a program must compute and move, from its IR: what a roofline is drawn from.
#pragma once

#include "tools/cli/work_counter.h"

namespace loopgrad::cli {

struct Work {
  double flops = 0;       // f32 operations, as in Cost
  double bytes = 0;       // each array read or written once; of an input no more than is read
  double tape_bytes = 0;  // the program's tape arrays, where their extents depend on sizes only
  bool exact = true;      // false when a branch or a bound depends on computed data, or iterations were sampled
};

/// Counts without going through iterations. Bounds that read input arrays are evaluated with `inputs`, at samples, or
/// follow from facts (CSR); `unknown`: what counts where data decide (see WorkCounter). Where the cheaper branch
/// counts, the figures are lower bounds if they are not exact.
Work count_work(const Program& program, const Sizes& sizes, const Arrays& inputs,
                WorkCounter::Unknown unknown = WorkCounter::Unknown::Cheapest);

}  // namespace loopgrad::cli
