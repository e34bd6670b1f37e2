// Fusion of loops that follow each other.
//
//   for i in 0..n:                       for i in 0..n:
//     a[i] = f(x[i])                       a[i] = f(x[i])
//   for k in 1..n + 1:         ->          y[i + 1] = a[i]
//     y[k] = a[k - 1]
//
// and of nests of them, loop by loop. Iterations of loops whose bounds are a constant apart are counted from the same
// one. Legality in order: no iteration of the second loop depends on a later one of the first. Of parallel loops that
// stay parallel: no iteration of either depends on another one of the other.
#pragma once

#include "transforms/loops/reorder_loops.h"

namespace loopgrad::transforms {

/// Two statements that follow each other, and the loops of theirs that become one, outermost first.
struct Fusion {
  std::vector<ir::Stmt> first, second;
  std::vector<std::int64_t> ahead;  // iteration i of the first goes with i + ahead of the second
};

/// As many of the loops directly inside each other as there are, at most `depth`. nullopt where one of the statements
/// is no loop, or bounds are no constant apart.
std::optional<Fusion> fusion_of(const ir::Stmt& first, const ir::Stmt& second, std::size_t depth = 1);

/// Whether the iterations of each pair, which are parallel, may become those of parallel loops, as `fused` makes them.
/// `program` has `fused`.
Legality can_fuse_parallel(const Analysed& program, const Fusion& fusion, const ir::Stmt& fused);

/// Whose iterators, marks and lines the nest has.
enum class Named { First, Second };

/// Both as one nest.
ir::Stmt fused(const Fusion& fusion, Named as = Named::First);
/// The second nest's body in it.
ir::Stmt second_body(const Fusion& fusion);

/// The user's step, in order: the loop is not marked parallel.
Scheduled fuse_two_loops(const Analysed& program, const LoopName& first, const LoopName& second);

}  // namespace loopgrad::transforms
