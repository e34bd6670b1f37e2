// Names for what all iterations of a loop compute alike.
//
//   for j in 0..n:                         for j in 0..n:
//     for c in 0..d:                         weight = s[j]/sum
//       y[c] += s[j]/sum*v[j, c]      ->     for c in 0..d:
//                                              y[c] += weight*v[j, c]
//
// Compilers do the same to the program as it stands. Here it is the adjoint that gains: it would add to d_s and d_sum
// in every iteration of c, each time with the division's derivative; with a name, d_weight is a sum of products, and
// what follows from it is done once. Sums of products are what the rest of loopgrad, and libraries, know best.
#pragma once

#include "tape/adjoint_rules.h"

#include "dsl/ir/program.h"

#include <set>

namespace loopgrad::tape {

/// Computes parts of values before the outermost loop in which they stay the same. Values do not change: nothing is
/// computed in another way, and what a fused sum adds keeps its product. `active`: the arrays that get adjoints; only
/// operations on these are worth a name. The locals are added to `named`, as by name_values.
///
/// Leaves alone: what is computed under a branch or in one of a select (where it may have no derivative), reads of
/// which it is not plain that they stay within their arrays when the loop makes no trip, or of arrays that only
/// branches set (those in which the loop makes one, say), and loops whose bounds are no sizes (rows of a triangle may
/// be empty as well, and the derivative of what nobody uses may be infinite).
ir::Stmt name_invariants(const ir::Program& program, const IsActive& active, std::set<ir::Array>& named);

}  // namespace loopgrad::tape
