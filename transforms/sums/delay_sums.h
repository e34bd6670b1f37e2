// Sums into the level of the next step wait for that step, where the rest of that level is summed up.
//
//   for t in 1..T + 1 reversed:                     for t in 1..T + 1 reversed:
//     for i: v[t, i] += f(v[t + 1, i])                for i: v[t, i] += select(t < T, -v[t + 2, i], 0)
//     for i: v[t - 1, i] += -v[t + 1, i]      ->             v[t, i] += f(v[t + 1, i])
//                                                   for i: v[0, i] += select(1 < T + 1, -v[2, i], 0)
//
// Adjoints of recurrences over several steps (waves, leapfrog) are full of this. As two statements, a level is written
// in one step, and read and written again in the next; as one it is written once. Also known as retiming or loop
// shifting; see Darte and Huard, "Loop shifting for loop compaction" (2000).
//
// Requires: sums are gathered (their targets are plain iterators). Guarantees: every element gets the same operations
// in the same order, up to the sign of zeros. Applies where the value is cheap, loads no more than `most_loads`
// elements, and the next step visits the same elements before anything else uses them. Leaves alone: arrays that may
// alias; levels that are not the step plus a constant wherever the loop uses the array.
//
// A pass of its own: a sum moves from one step to the next, which neither fusion (within a step) nor a shift of whole
// nests does. Of 400 programs it changes wave3d alone, whose backward sweep takes a sixth longer without it on one
// thread of a CPU, a fifth on an H200.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program delay_sums(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
