// Sums into one array by several indices from data are one stream of instances, sorted once and summed up together.
//
//   for e in 0..m:                                for e in 0..m:
//     parallel for c in 0..3:                       for which in 0..2:
//       f[ends[e, 0], c] += -l[e]*d[e, c]   ->        parallel for c in 0..3:
//   for e in 0..m:                                      f[ends[e, which], c] += select(which == 0, -l[e], l[e])*d[e, c]
//     parallel for c in 0..3:
//       f[ends[e, 1], c] += l[e]*d[e, c]
//
// Neighbouring nests with equal loops, each one scatter (scatters.h) into the same array by the plan `segments`, become
// one nest with a short loop over the sums, where these differ in indices of the key alone. Sums into other arrays may
// stand between them, as those of a cell's mass between those of its momentum. Where the terms and indices of the sums
// differ, they are computed from the loop's iterator (`by_number`). Sums into the same elements are terms of one
// instance: those with as many terms are joined.
//
// Requires: parallel loops are marked. Guarantees: the same terms for every element; their order follows from the
// program. Leaves alone: nests whose instances run in parallel as they are, nests between which something else stands;
// leaves with scalars of their own; sums into different columns of what the key chooses, which share a sort as they
// are.
#pragma once

#include "dsl/ir/program.h"

#include <vector>

namespace loopgrad::transforms {

ir::Program join_scatters(const ir::Program& program);

/// An expression with the value of the k-th of `list` where `number` is k: `a[i, 0], a[i, 1]` is `a[i, number]`. Null
/// where their types differ. The values are computed under the same conditions as before.
ir::Expr by_number(const std::vector<ir::Expr>& list, const ir::Expr& number);

}  // namespace loopgrad::transforms
