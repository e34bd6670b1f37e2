// Rows whose length only data tell: two kernels from one nest, one for short rows and one for long ones.
//
//   parallel for v in 0..n:               grid for g in 0..G:                     # a large block
//     for e in p[v]..p[v + 1]: A            longest = the largest p[v + 1] - p[v] of v = g, g + G, ..
//                                           if longest > 256:
//                                    ->       for v in g, g + G, ..:
//                                               if p[v + 1] - p[v] > 256:
//                                                 for e in p[v]..p[v + 1]: A      # by all its threads
//                                         grid for v in 0..n:                     # a warp
//                                           if p[v + 1] - p[v] <= 256:
//                                             for e in p[v]..p[v + 1]: A
//
// A warp alone with a row of thousands would be late, and a large block idle in a row of seven. Which kernel does a row
// depends on its length alone, so the order of its sums does, too. The rows of one block are far apart, so that long
// rows beside each other are done by different blocks.
#pragma once

#include "transforms/analysis/analysed.h"
#include "transforms/map/gpu/parallel_nest.h"

namespace loopgrad::transforms {

/// A nest over rows of which only data tell the length.
struct RaggedRows {
  const ir::For* rows = nullptr;  // the loop of the nest that the length depends on
  ir::Expr length;
  ir::Expr inside;  // trips of the longest loop that one thread does in each iteration; null: none
};

/// Requires that all loops of `nest.body` that data give a length have the same bounds, on one of the nest's loops, and
/// that they are executed whatever else data say.
std::optional<RaggedRows> ragged_rows(const ir::Program& program, const ParallelNest& nest);

/// Both kernels. `fixed_threads`: of each block, as the user wants it; 0: as fits. `enough_threads` as in Machine.
ir::Stmt row_classes(const Analysed& program, const ParallelNest& nest, const RaggedRows& ragged,
                     std::int64_t fixed_threads, std::int64_t enough_threads);

}  // namespace loopgrad::transforms
