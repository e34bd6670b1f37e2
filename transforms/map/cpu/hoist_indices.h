// Indices that are read from data, or chosen, and do not change in an innermost loop are read before it.
//
//   for e in 0..k:                          for e in 0..k:
//     for j in 0..n:                          src_row = select(0 < n, src[e], 0)
//       s += y[j]*x[src[e], j]        ->      for j in 0..n:
//                                               s += y[j]*x[src_row, j]
//
// Compilers do not, in loops that they are told to vectorise: x[src[e], j] then is gathered lane by lane. The same for
// indices that choose, x[select(i < 0, -i, i), j]: to compilers a choice is a branch, which they leave in the loop.
//
// Requires: nothing; last, as it leaves nests that are not perfect. Guarantees: the same values. Leaves alone: loops
// in no other loop, indices that only some iterations read, arrays that the loop writes or that may alias.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program hoist_indices(const ir::Program& program);

}  // namespace loopgrad::transforms
