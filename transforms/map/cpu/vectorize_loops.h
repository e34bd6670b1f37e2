// Marks the loops whose iterations run side by side in vector lanes.
//
//   for j in 0..k:                     for j in 0..k (lanes):
//     s += x[i + j]*w[j]         ->      s += (lanes) x[i + j]*w[j]
//   for d in 0..m:                     for d in 0..m (lanes 8) (sums of lanes):
//     s += q[d]*k[8*o, d]                s += (lanes) q[d]*k[8*o, d]
//     s_1 += q[d]*k[8*o + 1, d]          s_1 += (lanes) q[d]*k[8*o + 1, d]
//     .. eight in all                    ..
//
// Requires: parallel loops marked; sums in scalars (accumulate_in_registers), as one in memory stays where it is.
// Guarantees: computes the same up to the order in which a sequential loop sums into scalars, an order that depends on
// the bounds alone. How many lanes is left to the compiler, but for four sums or more, which keep the processor busy in
// narrow registers too: those take fewer steps to be added up at the end. Left to itself, a compiler adds up the lanes
// of each sum apart, which for short loops takes longer than the sums; eight that are all that a loop does are added up
// all at once. Loops of a few trips inside of lanes are written in a row (`run.unroll`): a compiler does that on its
// own for small bodies only, and uses no lanes else. Leaves alone, with a reason for innermost loops: what plan_lanes
// (vector_lanes.h) does not accept, and loops of a single trip, which fill no lanes and would keep the loops inside
// from threads.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program vectorize_loops(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
