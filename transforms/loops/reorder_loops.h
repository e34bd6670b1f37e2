// Interchange and tiling of perfectly nested loops.
//
//   for i in 0..n:                        for i_tile in 0..(n + 31)//32:
//     for j in 0..m:                        for j_tile in 0..(m + 31)//32:
//       y[j, i] = x[i, j]         ->          for i in 32*i_tile..min(n, 32*i_tile + 32):
//                                               for j in 32*j_tile..min(m, 32*j_tile + 32):
//                                                 y[j, i] = x[i, j]
//
// Loops whose bounds do not depend on each other are rebuilt as they stand; for triangular and other affine bounds isl
// generates the new loops. Requires: for reordering, bounds that read no data. Loops marked parallel lose the mark when
// they are moved (parallelize_loops finds them again). Legality: no dependence may be reversed; sums commute.
#pragma once

#include "transforms/loops/legality.h"

#include <loopgrad/schedule.h>

namespace loopgrad::transforms {

/// A program after a step, and what the step found out.
struct Scheduled {
  ir::Program program;
  Legality legality;  // ok
};

/// A sequential loop of nothing but a parallel one, seen through branches without `else`, with the latter outermost:
///
///   for o in 0..k:                          parallel for d in 0..m:
///     if o < s:                               for o in 0..k:
///       parallel for d in 0..m: ...   ->        if o < s: ...
///
/// Null for others, and where the bounds of the parallel loop are data or depend on the sequential one. Legal where
/// `can_run_in_parallel` says so of the result in its place: whatever the sequential iterations are.
ir::Stmt with_parallel_outermost(const ir::Stmt& loop);
/// The parallel loop of these; null for others.
const ir::For* only_parallel_loop(const ir::Stmt& body);

Scheduled split_loop(const Analysed& program, const LoopName& loop, std::int64_t factor);
/// Throw TransformError when illegal, UsageError when the loops are no perfect nest.
Scheduled tile_loops(const Analysed& program, const std::vector<LoopName>& loops,
                     const std::vector<std::int64_t>& sizes);
Scheduled reorder_loops(const Analysed& program, const std::vector<LoopName>& order);
Scheduled interchange_loops(const Analysed& program, const LoopName& a, const LoopName& b);
Scheduled reverse_loop(const Analysed& program, const LoopName& loop);

}  // namespace loopgrad::transforms
