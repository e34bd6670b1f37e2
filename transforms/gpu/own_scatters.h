// Sums through an index array: each thread owns a range of the targets and takes what falls into it.
//
//   parallel for j in 0..d:                        parallel for owner in 0..O:
//     for i in 0..n:                                 parallel for j in 0..d:
//       d_t[idx[i], j] += d_y[i, j]          ->        for i in 0..n:
//                                                        if owner*S <= idx[i] && idx[i] < owner*S + S:
//                                                          d_t[idx[i], j] += d_y[i, j]
//
// O is up to 512, S the share of each. Every owner looks at every index, which is much cheaper than the sum itself
// being done by the threads of one loop alone; an inverted index would be cheaper still.
//
// Requires: parallel loops are marked. Guarantees: every element gets the same operations in the same order. Leaves
// alone: loops with more than the one sum in them, targets that bounds, values or indices read, arrays that may alias.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program own_scatters(const ir::Program& program);

}  // namespace loopgrad::transforms
