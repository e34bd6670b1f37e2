// What loops add to one element that data choose is summed up before it goes there.
//
//   for f in 0..n:                               for f in 0..n:
//     for j in 0..m:                               local f32 y_row
//       y[key[f]] += x[f, j]*w[j]         ->       y_row = 0
//                                                  for j in 0..m:
//                                                    y_row += x[f, j]*w[j]
//                                                  if 0 < m: y[key[f]] += y_row
//
// Whatever brings sums with the same key together (sorts, inverses, owners) has to do it with one term for each f then,
// and the rest is a sum of which the element is known.
//
// Requires: nothing. Guarantees: the same results up to the order of sums. Leaves alone: elements that no data choose,
// sums under a branch inside of the loops (where the key may be none), what the loops read, or change otherwise, or may
// under another name, and types that are stored narrower than they are summed up.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program sum_rows_first(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
