// Parallel loops over bands are counted from where these begin.
//
//   parallel for i in 0..n:                         parallel for i in 0..n:
//     parallel for j in max(i - r, 0)                 parallel for k in 0..max(min(2*r + 1, n), 0):
//                       ..min(i + r + 1, n):   ->       if max(i - r, 0) + k < min(i + r + 1, n):
//       y[i, j] = x[j]                                    y[i, max(i - r, 0) + k] = x[max(i - r, 0) + k]
//
// A grid is a box, so that a kernel would have n by n threads, most of them for nothing: a loop whose bounds move with
// those around it gets the widest bounds that it may have (parallel_nest.h). Shares of blocks of iterations are bands,
// too, and so is what a loop over tiles leaves to the one inside.
//
// Requires: parallel loops are marked. Guarantees: every element gets the same operations in the same order. Leaves
// alone: loops that may be as wide as the widest, such as the diagonals of a rectangle and the rows of a triangle, and
// those of which data tell the bounds.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program narrow_bands(const ir::Program& program);

}  // namespace loopgrad::transforms
