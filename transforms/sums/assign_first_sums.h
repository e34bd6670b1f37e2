// Sums start from a constant where they begin, not from an array that was filled with zeros long before.
//
//   for l in 0..k:                            for l in 0..k:
//     for j in 0..n: d_b[l, j] = 0              for j in 0..n: d_b[l, j] = 0     (now dead: see zero_fills.h)
//   for l in 0..k:                     ->     for l in 0..k:
//     for j in 0..n:                            for j in 0..n:
//       for i in 0..m:                            d_b[l, j] = 0
//         d_b[l, j] += d_c[i, j]*a[i, l]          for i in 0..m:
//                                                   d_b[l, j] += d_c[i, j]*a[i, l]
//
// and `x = 0` directly before `x += v` becomes `x = v`. Where the steps of a recurrence all add to the same elements,
// the first step starts from the constant:
//
//   for i: y[i] = 0                                  for i: y[i] = 0      (now dead but for T = 0)
//   for t in 0..T:                            ->     for t in 0..T:
//     for i: y[i] += v[t, i]                           for i: y[i] = select(0 < t, y[i], 0); y[i] += v[t, i]
//     for i: v[t + 1, i] = f(v[t, i])                  for i: v[t + 1, i] = f(v[t, i])
//
// unless anything else reads an element that it was cleared in: then it has to be all the same.
//
// Requires: nothing. Guarantees: the same results up to the sign of zeros. A constant is assigned only where array
// dataflow shows, exactly, that the element holds it already. Past isl's budget for a question, that sum stays as it
// is. Cost: array dataflow for each sum into an array that is cleared somewhere.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program assign_first_sums(const ir::Program& program, PassContext& context);

/// The same for sums that become a single assignment where they stand, into arrays that are only ever indexed by plain
/// iterators or constants: `d_x[r, c] += v` becomes `d_x[r, c] = v`. Changes no loops, and so nothing that later passes
/// look at.
ir::Program assign_single_sums(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
