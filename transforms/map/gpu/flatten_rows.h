// Loops over all entries in place of loops over rows and over the entries of each, where data tell how long rows are.
//
//   parallel for v in 0..n:                          local i64 v_of[nnz]
//     parallel for e in ptr[v]..ptr[v + 1]:          parallel for v in 0..n:
//       for f in ptr[v]..e + 1: A(v, e, f)    ->       parallel for e in ptr[v]..ptr[v + 1]: v_of[e] = v
//                                                    parallel for e in 0..nnz:
//                                                      v_now = v_of[e]
//                                                      for f in ptr[v_now]..e + 1: A(v_now, e, f)
//
// A block with a row of thousands would be late, the later as each of its iterations takes as long as data say, too;
// entries are as many as they are. Rows may be cells of a grid, a*g + b of loops over a and b. Once for all nests over
// the rows of one structure.
//
// Requires: parallel loops are marked. Guarantees: every element gets the same operations in the same order. Leaves
// alone: nests whose rows have statements of their own beside the loop over entries, those that do not visit every row,
// and iterations that all take equally long, of which blocks and warps take rows (row_classes.h).
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program flatten_rows(const ir::Program& program);

}  // namespace loopgrad::transforms
