// Sums through an index array are done target by target, by an inverse of the index array that is made first.
//
//   parallel for b in 0..(m + 31)//32:              for e in 0..k: place[idx[e]] += 1
//     for e in 0..k:                                for t in 0..n: first[t], place[t] = sum of place[0..t]
//       parallel for j in 32*b..32*b + 32:          for e in 0..k:
//         d_x[idx[e], j] += w[e]*d_y[e, j]    ->      e_of[place[idx[e]]] = e
//                                                     place[idx[e]] += 1
//                                                   parallel for t in 0..n:
//                                                     for slot in first[t]..first[t + 1]:
//                                                       parallel for j in 0..m:
//                                                         d_x[t, j] += w[e_of[slot]]*d_y[e_of[slot], j]
//
// where the loops over e are done in up to 16 blocks side by side if there are many more iterations than targets, each
// with its own place[n].
//
// Without it only the columns j could be shared out to threads; and a target that many iterations add to now stays in
// registers. The inverse keeps the order of the iterations: every element gets its terms as before. Where rows are
// narrow or iterations few it would not pay: a condition on sizes then takes the loops as they were.
//
// Neighbouring nests of such sums that have no rows, so that no inverse serves them, become one where their loops are
// equal and none reads what another one adds to: they were parts of one nest, and read the same of each iteration.
//
// Requires: parallel loops are marked. Guarantees: every element gets the same operations in the same order, whatever
// the number of threads. Applies to one sum in sequential loops, with at least one parallel loop around or inside
// whose iterations have the targets in common. Leaves alone: nests within parallel loops; atomic sums; targets that the
// nest reads or that may alias; loops of which nothing but data tells how often they run (rows of a CSR structure are
// known to have all its entries together).
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

/// Rows that are narrower stay in order: the inverse takes longer than what it saves.
inline constexpr std::int64_t least_inverted_width = 8;
/// Of iterations that are looked at side by side. They need room for each target, of which there should be fewer than
/// iterations.
inline constexpr std::int64_t most_inverted_blocks = 16;

ir::Program invert_scatters(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
