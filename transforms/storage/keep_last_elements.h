// What only the iteration that computes it reads does not go to memory.
//
//   local f32 v[3, n]                                local f32 v[3, n]
//   ...                                              ...
//   parallel for i in 0..n:                          parallel for i in 0..n:
//     v[0, i] = -v[2, i]                       ->      local f32 v_kept
//     y[i] = v[0, i] + v[1, i]                         v_kept = -v[2, i]
//                                                      y[i] = v_kept + v[1, i]
//
// Where nests are fused, what the first one left for the second is often wanted by nobody else. Requires: parallel
// loops are marked. Guarantees: every other element gets the same operations in the same order. Applies to the last
// nest in the scope of a local array when each iteration stores, in any case, to one element of it, its own, and no
// other iteration touches that; of an `if` at the end of the scope, to the last nest of each branch. What is read of
// the element before is loaded. Leaves alone: nests with loops inside, and what elements_in_scalars.h does.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program keep_last_elements(const ir::Program& program);

}  // namespace loopgrad::transforms
