// What loops add to elements that data choose is summed up before it goes there.
//
//   for f in 0..n:                               for f in 0..n:
//     for j in 0..m:                               local f32 y_row
//       y[key[f]] += x[f, j]*w[j]         ->       y_row = 0
//                                                  for j in 0..m:
//                                                    y_row += x[f, j]*w[j]
//                                                  if 0 < m: y[key[f]] += y_row
//
// Whatever brings sums with the same key together (sorts, inverses, owners) has to do it with one term for each f then,
// and the rest is a sum of which the element is known. Where loops inside choose, there is a total for each of their
// iterations:
//
//   for b in 0..n:                               local f32 t_row[m, m]: 0
//     for i in 0..m:                             for b in 0..n:
//       for j in 0..i:                    ->       for i in 0..m:
//         t[key[i, j]] += x[b, i]*x[b, j]            for j in 0..i:
//                                                      t_row[i, j] += x[b, i]*x[b, j]
//                                                for i in 0..m:
//                                                  for j in 0..i:
//                                                    if 0 < n: t[key[i, j]] += t_row[i, j]
//
// Elements that are chosen by computing, but not by an affine expression, are no others: packed triangles, as in
// t[i*(i - 1)//2 + j].
//
// Requires: nothing. Guarantees: the same results up to the order of sums. Leaves alone: elements with affine indices,
// sums under a branch inside of the loops (where the key may be none), what the loops read, or change otherwise, or may
// under another name, types that are stored narrower than they are summed up, and loops that choose where those around
// them do not repeat each key often, by estimate.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program sum_rows_first(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
