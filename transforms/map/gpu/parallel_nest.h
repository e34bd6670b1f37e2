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
/// One that goes over a band is counted from where that begins, as long as the band is wide:
///
///   parallel for i in 0..n:                         parallel for i in 0..n:
///     parallel for j in max(i - r, 0)                 parallel for k in 0..min(2*r + 1, n):
///                       ..min(i + r + 1, n):   ->       if max(i - r, 0) + k < min(i + r + 1, n):
///       body                                              body with max(i - r, 0) + k for j
///
/// Conditions on a single iterator narrow its loop, so that no thread is started for nothing.
ParallelNest parallel_nest(const ir::Stmt& s);

/// `body` in grid loops of the same bounds.
ir::Stmt in_grid(const std::vector<const ir::For*>& loops, ir::Stmt body);

}  // namespace loopgrad::transforms
