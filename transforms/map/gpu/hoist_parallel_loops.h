// Moves parallel loops outwards, so that a GPU's threads own them and sum in registers.
//
//   parallel for b in 0..ceil(k/4):                 parallel for l in 0..k:
//     for i in 0..m:                                  parallel for j in 0..n:
//       parallel for l in 4*b..min(k, 4*b + 4):  ->     for i in 0..m:
//         parallel for j in 0..n:                         d_b[l, j] += d_c[i, j]*a[i, l]
//           d_b[l, j] += d_c[i, j]*a[i, l]
//
// A parallel loop that is all there is in a sequential one changes places with it when no two of its iterations touch
// one element with at least one of them changing it, whatever the sequential iterator is; a parallel loop over the
// tiles of a parallel loop, made for the caches of a CPU, is merged with it. Inside a parallel loop, one that only
// fills elements with a constant joins the next one of the same bounds when no iteration touches what another changes:
//
//   parallel for b in 0..k:                         parallel for b in 0..k:
//     parallel for j in 0..n: p[b, j] = 0             parallel for j in 0..n:
//     parallel for j in 0..n:                  ->       p[b, j] = 0
//       for i in b*c..b*c + c: p[b, j] += x[i, j]       for i in b*c..b*c + c: p[b, j] += x[i, j]
//
// Requires: parallel loops are marked. Guarantees: every element gets the same operations in the same order.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program hoist_parallel_loops(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
