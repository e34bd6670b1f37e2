// Marks products of matrices that a library (BLAS, cuBLAS) may do instead of the loops.
//
//   for i in 0..m reversed:                       contraction d_a = d_c*b (m x k x n):
//     for j in 0..n reversed:                       for i in 0..m:
//       for l in 0..k reversed:                       for l in 0..k: d_a[i, l] = 0
//         d_a[i, l] += d_c[i, j]*b[l, j]     ->     for i, j, l: d_a[i, l] += d_c[i, j]*b[l, j]
//         d_b[l, j] += d_c[i, j]*a[i, l]          contraction d_b = a*d_c (k x n x m):
//                                                   ...
//
// A sum that is a contraction (match.h) becomes a nest of its own where dependences allow it, the loops that are no
// part of it outside, and a preceding nest that sets its result to zero joins it. Locals that a product is summed
// into, or that are a factor of one, are kept for all iterations where that separates it (kept_locals.h). Whether the
// library is called is decided at run time: it must be there and the product large enough. Otherwise the loops run,
// which later passes treat as any.
// Requires: the loops as written. Guarantees: the loops inside a Contraction compute all of it. Leaves alone, with the
// reason in the report: programs that the user schedules by hand, sums under branches, in triangles, with strides, of
// other types, or whose loops need their result.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program recognize_contractions(const ir::Program& program, PassContext& context);

/// Joins to contractions the nests before them that set their results to zero.
ir::Stmt absorb_fills(const ir::Program& program, const ir::Stmt& body);

}  // namespace loopgrad::transforms
