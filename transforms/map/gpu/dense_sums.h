// Sums over the same elements again and again: whether a block of threads should take a tile of a nest's iterations and
// keep what these load in memory that its threads share (see shared_tiles.h).
//
//   parallel for i, j:
//     local f32 s                              rows: i, columns: j, step: l
//     s = c[i, j]                    ->        before: s = c[i, j]; after: c[i, j] = s
//     for l in 0..k: s += a[i, l]*b[l, j]      a[i, l] moves with rows and steps, b[l, j] with columns and steps
//     c[i, j] = s
//
// Rows and columns are two loops of the nest, a step is a few iterations of one of the loops summed over; what is
// loaded in a step belongs to one of the two, so that every element serves as many iterations as the tile is long along
// the other one. Loops summed over whose bounds depend on rows or columns begin where one of their bounds does, and
// their other bounds become conditions:
//
//   for s in max(0, 1 - j)..min(r, n + 1 - j):    ->    for s in 0..r: where j + s >= 1 and j + s < n + 1
#pragma once

#include "dsl/ir/program.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/map/gpu/parallel_nest.h"

#include <set>
#include <string>
#include <vector>

namespace loopgrad::transforms {

struct DenseSum {
  struct Sum {
    ir::Symbol iterator;
    ir::Expr lower, upper;
    SourceLocation location;
    bool rebased = false;  // it begins at 0, where one of several bounds was
  };
  struct Element {  // that is loaded for a step
    ir::Expr load;
    bool of_rows;     // else of columns
    bool along_step;  // neighbours are those of the step
  };

  std::string refused;  // why there is none; empty: the rest is set
  const ir::For* rows = nullptr;
  const ir::For* columns = nullptr;
  ir::Expr when;                // of the host: else nothing is done at all; may be null
  ir::Expr fits;                // of the host: the loops begin where they should; may be null
  std::vector<ir::Array> sums;  // scalars that are summed into
  std::vector<ir::Array> before_locals, after_locals;
  ir::Stmt before, inside, after;  // of one iteration; `inside` is what the loops summed over do
  std::vector<Sum> outer;          // loops summed over but for that of steps
  Sum step;
  std::vector<ir::Expr> conditions;  // under which `inside` is done, without loads
  std::vector<Element> elements;
};

/// Says in `refused` why there is none. Requires: the nest has several loops.
DenseSum dense_sum(const ir::Program& program, const ParallelNest& nest, const SizeEstimates& sizes);

}  // namespace loopgrad::transforms
