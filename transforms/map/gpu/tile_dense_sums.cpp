#include "transforms/map/gpu/tile_dense_sums.h"

#include "dsl/ir/rewriter.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/map/gpu/register_tile.h"
#include "transforms/map/gpu/shared_tiles.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t thread_rows = 8, thread_columns = 4, steps_at_once = 16;

BlockTile tile_of(std::int64_t threads) {
  BlockTile tile{thread_rows, thread_columns, thread_rows, thread_columns, steps_at_once};
  while (tile.threads() < threads) (tile.columns <= tile.rows ? tile.columns : tile.rows) *= 2;
  return tile;
}

Expr iterations_of(const ParallelNest& nest) {
  Expr total = number(1);
  for (const ir::For* loop : nest.loops) total = total * (loop->upper - loop->lower);
  return total;
}

Expr trips_of(const ir::For& loop) { return loop.upper - loop.lower; }

/// At least two of three iterations of the tiles along a loop exist.
Expr mostly_exist(const ir::For& loop, std::int64_t width) {
  return ir::binary(BinaryOp::Le, ceil_div(trips_of(loop), number(width)) * number(2 * width),
                    trips_of(loop) * number(3));
}

/// What has to hold whatever the number of tiles; in sizes.
Expr fits(const ParallelNest& nest, const DenseSum& sum, const BlockTile& tile) {
  const Expr exist = both(mostly_exist(*sum.rows, tile.rows), mostly_exist(*sum.columns, tile.columns));
  std::vector<ir::Symbol> around;
  for (const ir::For* loop : nest.loops) around.push_back(loop->iterator);
  for (const DenseSum::Sum& loop : sum.outer) around.push_back(loop.iterator);
  const Expr trips = most_trips(sum.step.lower, sum.step.upper, around);
  return both(both(exist, sum.fits), trips ? at_least(trips, tile.steps) : Expr());
}

/// The number of tiles, at the sizes that are stated.
class Estimate {
 public:
  Estimate(const ir::Program& program, const SizeEstimates& sizes) : estimator_(program, sizes) {}

  double of(const Expr& e) { return estimator_.value_of(e, {}); }
  bool is_assumed() const { return estimator_.assumed_sizes(); }

  /// Whether a loop's iterations make tiles well; where nobody has stated its size, they do.
  bool mostly_exist(const ir::Program& program, const SizeEstimates& sizes, const ir::For& loop, std::int64_t width) {
    SizeEstimator own(program, sizes);
    const auto trips = static_cast<std::int64_t>(own.value_of(trips_of(loop), {}));
    return own.assumed_sizes() || (trips + width - 1) / width * 2 * width <= trips * 3;
  }

 private:
  SizeEstimator estimator_;
};

}  // namespace

TiledSums tile_dense_sums(const ir::Program& program, const ParallelNest& nest, const Stmt& otherwise,
                          const TilingOptions& options) {
  const DenseSum sum = dense_sum(program, nest, options.sizes);
  if (!sum.refused.empty()) return {{}, sum.refused};
  const BlockTile tile = tile_of(options.threads);
  Estimate estimate(program, options.sizes);
  for (const ir::For* loop : {sum.rows, sum.columns})
    if (!estimate.mostly_exist(program, options.sizes, *loop, loop == sum.rows ? tile.rows : tile.columns))
      return {{}, fmt::format("'{}' is too short for tiles at the stated sizes", loop->iterator.name)};
  const std::int64_t own = tile.thread_rows * tile.thread_columns;
  const std::int64_t enough = std::max<std::int64_t>(options.enough_threads / 4, 1) * own;
  const Expr total = iterations_of(nest), may = fits(nest, sum, tile);
  Stmt result = ir::with_fresh_names(otherwise);
  std::string reason = fmt::format(
      "blocks of {} threads keep what {} iterations of '{}' and {} of '{}' load in {} steps of '{}', where tiles are "
      "full and enough",
      tile.threads(), tile.rows, sum.rows->iterator.name, tile.columns, sum.columns->iterator.name, tile.steps,
      sum.step.iterator.name);
  const DenseSum::Sum* loop = loop_in_parts(nest, sum);
  if (loop && estimate.of(total) < static_cast<double>(enough)) {
    const Expr trips =
        loop == &sum.step ? ceil_div(loop->upper - loop->lower, number(tile.steps)) : loop->upper - loop->lower;
    const Expr parts = ir::binary(BinaryOp::Min, trips, ceil_div(number(options.enough_threads * own), total));
    const Expr pays = both(both(at_least(total, 1), at_least(total * trips, enough)), may);
    result = ir::if_then(pays, split_tile_kernel(nest, sum, tile, parts, options.plain), result);
    reason += fmt::format("; else '{}' is split into parts", loop->iterator.name);
  }
  return {ir::if_then(both(at_least(total, enough), may), shared_tile_kernel(nest, sum, tile), result), reason};
}

}  // namespace loopgrad::transforms
