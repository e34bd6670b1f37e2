// Takes what a long loop carries out of it, so that the rest of the loop can run in parallel.
//
//   s = 0                                   local f32 s_at[n]
//   for i in 0..n:                          for i in 0..n:
//     s = decay*s + x[i]              ->      s_at[i] = decay*select(i == 0, 0, s_at[i - 1]) + x[i]
//     y[i] = s*s                            for i in 0..n:
//                                             y[i] = s_at[i]*s_at[i]
//
// The loop that is left with the recurrence alone is what scan_recurrences.h does in pieces, where it runs; passes on
// sums and loops then see the others without it. A loop that carries several values, each linear once the ones
// before are known, falls apart into as many loops.
//
// Requires: a machine that does recurrences in pieces (Machine::least_scanned), for which the loop is long enough by
// estimate. Guarantees: each statement gets the same values in the same order; nothing is rounded differently yet.
// Leaves alone, with a remark in the report: what is neither linear in the carried value nor one extremum, what other
// statements of the loop both need and make, and what decides about control (docs/numerics.md), as its bits may change
// later.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program isolate_recurrences(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
