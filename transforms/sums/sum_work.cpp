#include "transforms/sums/sum_work.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr double tile_length = 64;  // of a block's tile of elements, along both sides

double operations_in(const Expr& value) {
  double count = 0;
  ir::walk(value, [&](const Expr& e) {
    if (!is_float(e.type())) return;
    if (auto* node = e.as<ir::Unary>()) count += node->op == ir::UnaryOp::Neg || node->op == ir::UnaryOp::Abs ? 1 : 10;
    if (auto* node = e.as<ir::Binary>()) count += node->op == BinaryOp::Pow ? 20 : 1;
  });
  return count;
}

// The rows of the coefficients of independent linear expressions, and their inverse: directions of the new loops.
using Matrix = std::vector<std::vector<double>>;

std::optional<Matrix> inverse_of(Matrix m) {
  std::size_t n = m.size();
  for (std::size_t k = 0; k < n; ++k) {
    m[k].resize(2 * n, 0);
    m[k][n + k] = 1;
  }
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t k = column; k < n; ++k) {
      if (std::abs(m[k][column]) > std::abs(m[pivot][column])) pivot = k;
    }
    if (std::abs(m[pivot][column]) < 1e-9) return std::nullopt;
    std::swap(m[column], m[pivot]);
    double scale = m[column][column];
    for (double& x : m[column]) x /= scale;
    for (std::size_t k = 0; k < n; ++k) {
      double factor = k == column ? 0 : m[k][column];
      for (std::size_t l = 0; l < 2 * n; ++l) m[k][l] -= factor * m[column][l];
    }
  }
  for (auto& row : m) row.erase(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(n));
  return m;
}

template <class Loops>
std::vector<ir::Symbol> iterators_of(const Loops& loops) {
  std::vector<ir::Symbol> result;
  for (const auto& loop : loops) result.push_back(loop.iterator);
  return result;
}

template <class Loops>
std::optional<std::vector<double>> row_of(const Expr& e, const Loops& written) {
  std::vector<double> row;
  for (const auto& loop : written) {
    auto coefficient = coefficient_of(e, loop.iterator);
    if (!coefficient) return std::nullopt;
    row.push_back(static_cast<double>(*coefficient));
  }
  return row;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

}  // namespace

std::vector<SumWork::Loop> SumWork::loops_around(const Stmt& sum) {
  std::vector<Loop> loops;
  const auto found = around_.find(sum.get());
  if (found == around_.end()) return loops;
  std::map<ir::Symbol, double> middle, lowest, highest;  // of the iterators
  const auto at_ends = [&](const Expr& e) {
    return std::minmax({estimator_.value_of(e, lowest), estimator_.value_of(e, highest)});
  };
  for (const Stmt& at : found->second) {
    if (auto* node = at.as<ir::For>()) {
      double trips = estimator_.trips_of(node->lower, node->upper, middle);
      const bool is_inner = machine_.block_threads > 1 && can_share_out_ && !loops.empty();
      const double most = node->at_most ? estimator_.value_of(node->at_most, middle) : trips;
      const bool is_data = ir::has_load(node->lower) || ir::has_load(node->upper);
      const double from = is_data ? 0 : at_ends(node->lower).first;
      const double span = is_data ? trips : std::max(trips, at_ends(node->upper).second - from);
      loops.push_back({node->iterator, trips, std::max(trips, most), span, {}});
      if (is_inner) {
        loops.back().is_shared_out = can_share_out_(at, Shared::Scalars);
        loops.back().is_parallel = can_share_out_(at, Shared::AnySums);
      }
      lowest[node->iterator] = from;
      highest[node->iterator] = from + std::max(1.0, span) - 1;
      middle[node->iterator] = (ir::has_load(node->lower) ? 0 : estimator_.value_of(node->lower, middle)) + trips / 2;
    }
    if (auto* node = at.as<ir::While>()) {
      const double trips = estimator_.value_of(node->max_trips, middle);
      loops.push_back({node->iterator, trips, trips, trips, {}, false, false});
    }
  }
  for (std::size_t k = 0; k < loops.size(); ++k) {
    loops[k].direction.assign(loops.size(), 0);
    loops[k].direction[k] = 1;
  }
  return loops;
}

/// Whether the index is the iterator of a loop around that starts where data say.
bool SumWork::is_entry(const Stmt& sum, const Expr& index) const {
  const auto* iterator = index.as<ir::Var>();
  const auto found = around_.find(sum.get());
  return iterator && found != around_.end() &&
         std::any_of(found->second.begin(), found->second.end(), [&](const Stmt& at) {
           const auto* loop = at.as<ir::For>();
           return loop && loop->iterator == iterator->symbol && ir::has_load(loop->lower);
         });
}

std::vector<SumWork::Loop> SumWork::gather_loops(const Stmt& sum, const Separators& separators, double& parallel) {
  std::vector<Loop> written = loops_around(sum);
  const ir::Reduce& node = *sum.as<ir::Reduce>();
  std::vector<Expr> varying;
  double instances = 1;
  for (const Loop& loop : written) instances *= loop.trips;
  parallel = 1;
  for (int dim : separators.dims) {
    const Expr& index = node.indices[static_cast<std::size_t>(dim)];
    bool varies =
        std::any_of(written.begin(), written.end(), [&](auto& loop) { return mentions(index, loop.iterator); });
    if (varies && row_of(index, written)) varying.push_back(simplify_indices(index));
  }
  if (varying.empty() || !separators.exact_bounds) {
    if (separators.exact_bounds) {  // an index that is not linear: as many threads as there are elements
      for (int dim : separators.dims)
        parallel *= estimator_.value_of(node.array->shape[static_cast<std::size_t>(dim)], {});
      return written;
    }
    // Entries of rows that change places: as many threads as there are entries (gather_entries.h).
    for (int dim : separators.dims)
      if (is_entry(sum, node.indices[static_cast<std::size_t>(dim)])) {
        parallel = std::max(1.0, estimator_.value_of(node.array->shape[static_cast<std::size_t>(dim)], {}));
        return written;
      }
    // Blocks of one loop, the innermost that is an index as it is: whose elements the threads of a block share.
    double trips = 1;
    for (int dim : separators.dims)
      if (const auto* index = node.indices[static_cast<std::size_t>(dim)].as<ir::Var>())
        for (const Loop& loop : written)
          if (loop.iterator == index->symbol) trips = loop.trips;
    parallel = std::max(1.0, trips / elements_per_block) *
               std::clamp<double>(machine_.block_threads, 1, std::min<double>(trips, elements_per_block));
    return written;
  }
  LoopOrder order = best_order(sum, iterators_of(written), varying, machine_.elements_at_once);
  bool blocked = ir::as_int(order.time[0]) == std::nullopt && !row_of(order.time[0], written);
  Matrix rows;
  for (const Expr& time : order.time) {
    auto row = row_of(time, written);
    if (row && rows.size() < written.size()) rows.push_back(*row);
  }
  auto directions = rows.size() == written.size() ? inverse_of(rows) : std::nullopt;
  if (!directions) return written;
  std::vector<Loop> result;
  const auto is_separating = [&](std::size_t k) {
    return blocked ? k + 1 == rows.size() : static_cast<int>(k) < order.separating;
  };
  for (std::size_t k = 0; k < rows.size(); ++k) {
    Loop loop{written[k].iterator};
    const bool separates = is_separating(k);
    for (std::size_t i = 0; i < written.size(); ++i) {
      // An element has its terms in all iterations that reach it, wherever the loops around are then.
      loop.trips += std::abs(rows[k][i]) * std::max(0.0, (separates ? written[i].span : written[i].trips) - 1);
      loop.direction.push_back((*directions)[i][k]);
    }
    if (separates) parallel *= loop.trips;
    result.push_back(loop);
  }
  double left = std::max(1.0, instances / parallel);  // for the other loops
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (is_separating(k)) continue;
    result[k].trips = std::max(1.0, std::min(result[k].trips, left));
    left = std::max(1.0, left / result[k].trips);
  }
  if (!blocked) return result;
  // The separating loop is innermost, its blocks are outermost.
  const auto size = static_cast<double>(machine_.elements_at_once);
  Loop blocks = result.back();
  blocks.trips = parallel = std::max(1.0, blocks.trips / size);
  for (double& x : blocks.direction) x *= size;
  result.back().trips = std::min(result.back().trips, size);
  result.insert(result.begin(), blocks);
  return result;
}

// How many elements an access touches in the loops from `level` on.
SumWork::Touched SumWork::touched(const std::vector<Expr>& indices, const std::vector<Loop>& written,
                                  const std::vector<Loop>& order, std::size_t level) {
  double moving_trips = 1;
  for (std::size_t k = level; k < order.size(); ++k) {
    bool moves = std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
      auto row = row_of(index, written);
      return row ? std::abs(dot(*row, order[k].direction)) > 1e-9 : mentions(index, order[k].iterator);
    });
    if (moves) moving_trips *= order[k].trips;
  }
  double box = 1, rows = 1;
  bool unit_steps = false;  // along a row
  for (std::size_t dim = 0; dim < indices.size(); ++dim) {
    auto row = row_of(indices[dim], written);
    double range = 1;
    for (std::size_t k = level; k < order.size(); ++k) {
      if (!row && mentions(indices[dim], order[k].iterator)) range *= order[k].trips;
      if (!row) continue;
      double step = std::abs(dot(*row, order[k].direction));
      range += step * std::max(0.0, order[k].trips - 1);
      if (dim + 1 == indices.size()) unit_steps |= step > 0.5 && step < 1.5;
    }
    rows = box;
    box *= range;
  }
  const double elements = std::min(box, moving_trips);
  return {elements, elements <= 1 || (unit_steps && elements / rows > 4)};
}

// Where rows of the array are touched here and there only, with the rest of the cache lines. Short rows one after the
// other, and triangles, share their lines: it is never more than all of the array.
double SumWork::elements_touched(const Access& access, const std::vector<Loop>& written, const std::vector<Loop>& order,
                                 std::size_t level) {
  const Touched all = touched(*access.indices, written, order, level);
  const double line = machine_.line_bytes / static_cast<double>(bytes_of(access.array->type));
  return std::min(all.elements * (all.is_contiguous ? 1 : line), elements_of(access.array));
}

double SumWork::elements_of_iteration(const Stmt& sum) {
  const std::vector<Loop> written = loops_around(sum);
  return std::min(touched(sum.as<ir::Reduce>()->indices, written, written, 1).elements, elements_of(sum));
}

// Infinite where an extent is less certain than the loops are. The sizes of an array are no part of the basis.
double SumWork::elements_of(const ir::Array& array) {
  SizeEstimator extents(program_, sizes_);
  double elements = 1;
  for (const Expr& extent : array->shape) elements *= extents.value_of(extent, {});
  const bool uncertain = extents.assumed() && !estimator_.assumed();
  return uncertain ? std::numeric_limits<double>::infinity() : std::max(1.0, elements);
}

// What moves when as many iterations of a loop as fit work on what is in the cache: from the outermost loop inwards,
// the first of which any iterations fit.
double SumWork::bytes_moved(const std::vector<Access>& accesses, const std::vector<Loop>& written,
                            std::vector<Loop> order) {
  auto bytes_from = [&](std::size_t level) {
    double bytes = 0;
    for (const Access& access : accesses) {
      bytes += elements_touched(access, written, order, level) * static_cast<double>(bytes_of(access.array->type));
    }
    return bytes;
  };
  double around = 1;
  for (std::size_t level = 0; level < order.size(); ++level) {
    double trips = order[level].trips;
    for (double part = trips; part >= 1; part = std::floor(part / 2)) {
      order[level].trips = part;
      double bytes = bytes_from(level);
      bool last = level + 1 == order.size() && part < 2;
      if (bytes <= machine_.cache_bytes || last) return around * trips / part * bytes;
    }
    around *= std::max(1.0, trips);
  }
  return 0;
}

// The order when iterations of the loop that accesses memory best run side by side.
std::vector<SumWork::Loop> SumWork::with_lanes(const Stmt& sum, const std::vector<Loop>& written,
                                               std::vector<Loop> order) const {
  std::size_t best = order.size();
  int least = 0;
  for (std::size_t k = order.size(); k-- > 0;) {
    int cost = access_cost(sum, iterators_of(written), order[k].direction);
    if (best < order.size() && cost >= least) continue;
    best = k;
    least = cost;
  }
  if (best + 1 >= order.size()) return order;
  Loop side_by_side = order[best];
  side_by_side.trips = std::min(side_by_side.trips, machine_.lanes);
  order[best].trips = std::max(1.0, order[best].trips / side_by_side.trips);
  for (double& x : order[best].direction) x *= side_by_side.trips;
  order.push_back(side_by_side);
  return order;
}

SumWork::Work SumWork::work_of(const Stmt& sum, const std::vector<Loop>& written, std::vector<Loop> order, bool lanes) {
  const ir::Reduce& node = *sum.as<ir::Reduce>();
  std::vector<Access> accesses = {{node.array, &node.indices}};
  ir::walk(node.value, [&](const Expr& e) {
    auto* load = e.as<ir::Load>();
    if (load && !load->indices.empty()) accesses.push_back({load->array, &load->indices});
  });
  Work work;
  for (const Loop& loop : order) work.instances *= loop.trips;
  work.operations = work.instances * (1 + operations_in(node.value));
  if (lanes) order = with_lanes(sum, written, order);
  work.bytes = bytes_moved(accesses, written, order);
  int per_instance = order.empty() ? 0 : access_cost(sum, iterators_of(written), order.back().direction);
  double compute = work.operations * machine_.ns_per_operation + work.instances * per_instance * machine_.ns_per_access;
  work.nanoseconds = std::max(compute, work.bytes * machine_.ns_per_byte);
  return work;
}

std::optional<double> SumWork::nanoseconds_in_tiles(const Stmt& sum, const Work& work) {
  if (machine_.tile_threads == 0) return std::nullopt;
  const ir::Reduce& node = *sum.as<ir::Reduce>();
  const auto moves = [](const std::vector<Expr>& indices, const Loop& loop) {
    return std::any_of(indices.begin(), indices.end(), [&](auto& index) { return mentions(index, loop.iterator); });
  };
  std::vector<std::pair<Loop, const Expr*>> sides;  // that tiles may have, with the index that they move
  for (const Loop& loop : loops_around(sum))
    for (const Expr& index : node.indices)
      if (loop.trips * 3 >= tile_length * 2 && mentions(index, loop.iterator)) sides.emplace_back(loop, &index);
  const std::vector<LocalArray> locals = locals_of(nest_);  // are kept for all iterations of the loops around them
  bool is_local = false;
  std::vector<const ir::Load*> loads;
  ir::walk(node.value, [&](const Expr& e) {
    const auto* load = e.as<ir::Load>();
    if (!load) return;
    loads.push_back(load);
    is_local |= std::any_of(locals.begin(), locals.end(), [&](auto& local) { return local.array == load->array; });
  });
  const auto is_tile = [&](const auto& rows, const auto& columns) {
    return rows.second != columns.second && std::none_of(loads.begin(), loads.end(), [&](const ir::Load* load) {
             return moves(load->indices, rows.first) && moves(load->indices, columns.first);
           });
  };
  bool any = false;
  for (std::size_t k = 0; k < sides.size(); ++k)
    for (std::size_t l = k + 1; l < sides.size(); ++l) any |= is_tile(sides[k], sides[l]);
  if (!any || is_local || loads.empty()) return std::nullopt;
  double bytes = 0;
  for (const ir::Load* load : loads)
    bytes += work.instances * static_cast<double>(bytes_of(load->array->type)) / tile_length;
  return std::max(work.operations * machine_.ns_per_operation, bytes * machine_.ns_per_byte);
}

double SumWork::elements_of(const Stmt& sum) {
  const ir::Reduce& node = *sum.as<ir::Reduce>();
  std::vector<Loop> written = loops_around(sum);
  double elements = 1;
  for (std::size_t dim = 0; dim < node.indices.size(); ++dim) {
    bool moves = ir::has_load(node.indices[dim]);
    for (const Loop& loop : written) moves |= mentions(node.indices[dim], loop.iterator);
    if (moves) elements *= estimator_.value_of(node.array->shape[dim], {});
  }
  return elements;
}

double SumWork::updates_of(const Stmt& sum) {
  const ir::Reduce& node = *sum.as<ir::Reduce>();
  std::vector<Loop> written = loops_around(sum);
  const auto chooses = [&](const Loop& loop) {
    return std::any_of(node.indices.begin(), node.indices.end(),
                       [&](const Expr& index) { return mentions(index, loop.iterator); });
  };
  while (!written.empty() && !chooses(written.back())) written.pop_back();
  if (std::count_if(written.begin(), written.end(), chooses) < 2) return 0;
  double updates = 1;
  for (const Loop& loop : written) updates *= loop.trips;
  return updates;
}

double SumWork::bytes_kept(const std::vector<ir::Array>& kept) {
  double bytes = 0;
  for (const LocalArray& local : locals_of(nest_)) {
    if (std::find(kept.begin(), kept.end(), local.array) == kept.end()) continue;
    double elements = 1;
    std::map<ir::Symbol, double> middle;
    for (const Stmt& s : local.around) {
      auto* loop = s.as<ir::For>();
      if (!loop) continue;
      double trips = estimator_.trips_of(loop->lower, loop->upper, middle);
      middle[loop->iterator] = trips / 2;
      elements *= trips;
    }
    for (const Expr& extent : local.array->shape) elements *= estimator_.value_of(extent, middle);
    bytes += 2 * elements * static_cast<double>(bytes_of(local.array->type));  // written and read
  }
  return bytes;
}

double SumWork::shared_out(const std::vector<Loop>& written) {
  double threads = 1;
  for (const Loop& loop : written)
    if (loop.is_shared_out) threads *= loop.trips;
  return threads;
}

double SumWork::shared_by_block(const std::vector<Loop>& written) const {
  return std::clamp(shared_out(written), 1.0, machine_.block_threads);
}

double SumWork::rest_nanoseconds(const std::vector<Stmt>& sums) {
  StmtSet rest = set_of(leaves_);
  for (const Stmt& sum : sums) rest.erase(sum.get());
  return nanoseconds_of(rest);
}

double SumWork::nanoseconds_of(const StmtSet& own) {
  double nanoseconds = 0;
  for (const Stmt& leaf : leaves_) {
    if (!own.count(leaf.get())) continue;
    double instances = 1, operations = 0;
    for (const Loop& loop : loops_around(leaf)) instances *= loop.trips;
    if (const auto* sum = leaf.as<ir::Reduce>()) operations = 1 + operations_in(sum->value);
    if (const auto* assign = leaf.as<ir::Assign>()) operations = operations_in(assign->value);
    nanoseconds += instances * operations * machine_.ns_per_operation;
  }
  return nanoseconds;
}

bool SumWork::is_contiguous(const Stmt& sum, const std::vector<Loop>& order) {
  return !order.empty() && access_cost(sum, iterators_of(loops_around(sum)), order.back().direction) < strided_cost;
}

double SumWork::innermost_terms(const Stmt& sum, const std::vector<Loop>& order) {
  const std::vector<Loop> written = loops_around(sum);
  const auto& indices = sum.as<ir::Reduce>()->indices;
  double trips = 1;
  for (auto loop = order.rbegin(); loop != order.rend(); ++loop) {
    trips *= loop->trips;
    const bool stays = std::all_of(indices.begin(), indices.end(), [&](const Expr& index) {
      const auto row = row_of(index, written);
      return row && dot(*row, loop->direction) == 0;
    });
    if (stays) return trips;
  }
  return 1;
}

}  // namespace loopgrad::transforms
