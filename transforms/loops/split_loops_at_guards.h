// Takes conditions on an innermost loop's iterator out of the loop.
//
//   for c in 0..n:                        for c in 0..min(1, n):                      (with both conditions)
//     if c >= 1: x[c] += a[c - 1]   ->    for c in min(1, n)..max(min(1, n), n - 1):
//     if c < n - 1: x[c] += a[c + 1]        x[c] += a[c - 1]
//                                           x[c] += a[c + 1]
//                                         for c in max(min(1, n), n - 1)..n:          (with both conditions)
//
// Splits an innermost loop in whose body branches or selects depend on the iterator by affine inequalities: a middle
// part where all of them hold, and the two borders, as before. Conditions of such branches on outer iterators alone are
// tested before the loop; where one of them fails, the loop stays as it is. A body that is one branch just gets tighter
// bounds. Requires: nothing (parallel marks are kept). Guarantees: the same iterations in the same order. Leaves alone:
// loops without such conditions; conditions that are not conjunctions of inequalities, or that read data; large bodies;
// loops that change what their bounds read.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program split_loops_at_guards(const ir::Program& program);

/// The same for loops within a parallel loop whose body is one such branch around loops and statements without loops:
/// where the branch is not taken, only the statements are left.
ir::Program split_outer_loops_at_guards(const ir::Program& program);

/// A loop whose body is one such branch, with bounds between which it is taken; any other loop as it is.
ir::Stmt with_tight_bounds(const ir::Stmt& loop);

}  // namespace loopgrad::transforms
