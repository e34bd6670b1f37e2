// Partial results of elements that data choose: each thread of a block has a copy of its own.
//
//   parallel for block in 0..B:              parallel for block in 0..B:
//     parallel for z in 0..m:                  local f32 copy[m, 33]
//       part[block, z] = 0                     parallel for lane in 0..32:
//     for i in lower..upper:                     for z in 0..m: copy[z, lane] = 0
//       part[block, bin[i]] += x[i]     ->       for i in lower + lane..upper step 32:
//                                                  copy[bin[i], lane] += x[i]
//                                              parallel for lane in 0..32:
//                                                for z in lane..m step 32:
//                                                  part[block, z] = 0 + copy[z, 0] + .. + copy[z, 31]
//
// In place of one thread that does all iterations of a block, as no two may add to one element at once. The copies live
// in memory that the block shares, where they fit, which the host decides: else the nest stays as it is. A row of
// copies has room for one more, so that threads that add up different rows do not meet in a bank of that memory.
//
// Requires: parallel loops are marked. Guarantees: the same sums in an order that depends on the sizes only. Several
// rows may be filled, and the loop may do other things, too. Leaves alone: nests of anything else than filling and one
// loop, and those in which more than these sums goes from one iteration to another, by isl.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program lane_copies(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
