// Tapes of sums in arrays keep the iterations that are read, which often are the last ones of a loop.
//
//   for i in 0..n:                               for i in 0..n:
//     for j in 0..m:                               for j in 0..m:
//       r[i] += a[i, j]*x[j]              ->         r[i] += a[i, j]*x[j]
//       r_tape[t, i, j] = r[i]                     if 0 < m:
//   ... and backward: r_tape[t, i, m - 1]            r_tape[t, i] = r[i]
//                                                ... and backward: r_tape[t, i]
//
// Whoever writes an array saves what it writes at its own iterators (tape_plan.h), so that the terms of a sum are
// saved with it. Where each read names one place of a dimension, as a function of sizes and of its other places, the
// dimension goes.
#pragma once

#include "tape/direct_tape.h"

namespace loopgrad::tape {

/// Requires: forward and backward sweeps as they are generated. Guarantees: the same values in all reads. The report's
/// decisions are brought up to date. Leaves alone: tapes that the forward sweep reads, and that several statements
/// write.
DirectGradient without_unread_iterations(DirectGradient gradient, Report& report);

}  // namespace loopgrad::tape
