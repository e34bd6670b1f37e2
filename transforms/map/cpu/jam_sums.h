// Computes several sums over one loop side by side.
//
//   parallel for o in 0..k:                     parallel for o_unrolled in 0..k//8:
//     local s = 0                                 local s, s, ... = 0
//     for d in 0..m: s += q[d]*k[o, d]    ->      for d in 0..m:
//     score[o] = s                                  s += q[d]*k[8*o_unrolled, d]
//                                                   s += q[d]*k[8*o_unrolled + 1, d]
//                                                   ...
//                                                 score[8*o_unrolled] = s
//                                                 ...
//                                               parallel for o in k//8*8..k: (as before)
//
// A single sum is a chain of additions, each waiting for the one before; and what the sums have in common (q[d]) is
// loaded once for all. Requires: parallel loops marked; sums in scalars (accumulate_in_registers). Guarantees: each sum
// gets the same terms in the same order. Applies to parallel loops that one thread runs: those within a parallel loop
// that is not perfectly nested around them, or whose own bounds are data (entries of a row of a sparse matrix). Leaves
// alone: loops that change their bounds or whose inner loops have bounds that depend on the iteration or on data, or do
// other things than sum up scalars from neighbouring elements.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program jam_sums(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
