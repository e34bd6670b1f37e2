// The parallel loops that become the grid of a kernel.
#pragma once

#include "dsl/ir/program.h"

#include <vector>

namespace loopgrad::transforms {

/// Perfectly nested parallel loops whose bounds the host knows, and what is inside them.
struct ParallelNest {
  std::vector<const ir::For*> loops;
  std::vector<ir::Stmt> owned;  // those of `loops` that are not the program's
  ir::Stmt body;

  /// The bounds of a loop inside depend on nothing inside.
  bool fits(const ir::For& loop) const;
};

/// The nest at `s`, a For. Where bounds of a loop depend on loops around it, or a condition on iterators stands between
/// them, the loop gets the widest bounds and the body a guard:
///
///   parallel for i in 0..n + 2:                parallel for i in 1..n + 2:
///     if i >= 1:                                 parallel for j in 0..n + 1:
///       parallel for j in 0..i: body      ->       if j < i: body
///
/// Conditions on a single iterator narrow its loop, so that no thread is started for nothing.
ParallelNest parallel_nest(const ir::Stmt& s);

/// Whether a bound can be evaluated although a condition around it does not hold: it reads nothing, and does not divide
/// by zero.
bool is_total(const ir::Expr& bound);

/// `body` in grid loops of the same bounds.
ir::Stmt in_grid(const std::vector<const ir::For*>& loops, ir::Stmt body);

}  // namespace loopgrad::transforms
