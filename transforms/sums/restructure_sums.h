// The summation plan: rewrites loops that could be parallel but for sums that their iterations share.
//
//   for i in 0..n:                        parallel for c0 in 0..n + k - 1:
//     for j in 0..k:                        for j in max(0, c0 - n + 1)..min(k, c0 + 1):
//       d_x[i + j] += d_y[i]*w[j]    ->       d_x[c0] += d_y[c0 - j]*w[j]
//       d_w[j] += d_y[i]*x[i + j]         (and d_w as the sum of 64 partial results)
//
// Applies to the outermost loops whose iterations conflict in sums only; loops around them that carry other dependences
// (time steps) stay where they are. For each target, in this order of preference:
//   gather  the sums move into a nest of their own whose outermost loops enumerate elements of the target. Locals that
//           cross the split are computed again when cheap, else kept in arrays over the loops.
//   inverse the elements are known only at run time: the sums move into a nest of their own, in the old order, for the
//           mapping to a target, which inverts the indices. For a GPU; on a CPU where blocks would be one.
//   tree    partial results of blocks of iterations, combined in a fixed order: for targets that all iterations share
//           and that are small compared with the work, and wherever the nest cannot be split.
//   serial  the loop keeps its order.
// A GPU has more threads than few iterations of a parallel loop. What these add to elements that data choose leaves
// them to be sorted together; in loops of steps inside of them, which a block does, sums are gathered for its threads.
// Requires: nothing. Guarantees: no two orders of summation for different numbers of threads; ordinary dependences are
// kept; every choice has a SumDecision with its reason. Never fails: past isl's budget a loop keeps its order, with a
// remark. Cost: quadratic in the statements of a nest.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program restructure_sums(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
