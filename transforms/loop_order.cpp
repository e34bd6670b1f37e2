#include "transforms/loop_order.h"

#include "dsl/ir/visit.h"
#include "transforms/linear_form.h"
#include "transforms/nest.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::transforms {

using ir::Expr;
using Row = std::vector<double>;

namespace {

constexpr double tiny = 1e-9;

// Rows in echelon form: tells whether another row is independent of them.
class RowSpace {
 public:
  bool contains(Row row) const {
    reduce(row);
    return std::all_of(row.begin(), row.end(), [](double x) { return std::abs(x) < tiny; });
  }
  /// Adds a row; false when it was dependent.
  bool add(Row row) {
    reduce(row);
    auto pivot = std::find_if(row.begin(), row.end(), [](double x) { return std::abs(x) >= tiny; });
    if (pivot == row.end()) return false;
    auto column = static_cast<std::size_t>(pivot - row.begin());
    double scale = row[column];
    for (double& x : row) x /= scale;
    rows_.push_back({column, std::move(row)});
    return true;
  }

 private:
  void reduce(Row& row) const {
    for (const auto& [column, basis] : rows_) {
      double factor = row[column];
      for (std::size_t k = 0; k < row.size(); ++k) row[k] -= factor * basis[k];
    }
  }
  std::vector<std::pair<std::size_t, Row>> rows_;
};

// The step of the iterators that changes the last of n independent rows by 1 and leaves the others.
Row direction_of_last(std::vector<Row> rows) {
  std::size_t n = rows.size();
  for (std::size_t k = 0; k < n; ++k) rows[k].push_back(k + 1 == n ? 1 : 0);
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t k = column; k < n; ++k) {
      if (std::abs(rows[k][column]) > std::abs(rows[pivot][column])) pivot = k;
    }
    std::swap(rows[column], rows[pivot]);
    for (std::size_t k = 0; k < n; ++k) {
      if (k == column) continue;
      double factor = rows[k][column] / rows[column][column];
      for (std::size_t l = column; l <= n; ++l) rows[k][l] -= factor * rows[column][l];
    }
  }
  Row direction;
  for (std::size_t k = 0; k < n; ++k) direction.push_back(rows[k][n] / rows[k][k]);
  return direction;
}

// Coefficients of the iterators; nullopt when not linear in them.
std::optional<Row> row_of(const Expr& e, const std::vector<ir::Symbol>& iterators) {
  Row row;
  for (const ir::Symbol& iterator : iterators) {
    auto coefficient = coefficient_of(e, iterator);
    if (!coefficient) return std::nullopt;
    row.push_back(static_cast<double>(*coefficient));
  }
  return row;
}

int cost_of_access(const std::vector<Expr>& indices, const std::vector<ir::Symbol>& iterators, const Row& direction) {
  bool unit = false;
  for (std::size_t dim = 0; dim < indices.size(); ++dim) {
    auto row = row_of(indices[dim], iterators);
    if (!row) {
      // An indirect index moves when anything in it does.
      for (std::size_t k = 0; k < iterators.size(); ++k) {
        if (std::abs(direction[k]) > tiny && mentions(indices[dim], iterators[k])) return strided_cost;
      }
      continue;
    }
    double stride = 0;
    for (std::size_t k = 0; k < row->size(); ++k) stride += (*row)[k] * direction[k];
    if (std::abs(stride) < tiny) continue;
    if (dim + 1 < indices.size() || std::abs(std::abs(stride) - 1) > tiny) return strided_cost;
    unit = true;
  }
  return unit ? 1 : 0;
}

// One dimension of a candidate order.
struct Dim {
  Expr value;
  Row row;
  std::string name;
};

class OrderSearch {
 public:
  OrderSearch(const ir::Stmt& sum, const std::vector<ir::Symbol>& iterators) : sum_(sum), iterators_(iterators) {
    for (std::size_t k = 0; k < iterators.size(); ++k) {
      Row row(iterators.size(), 0);
      row[k] = 1;
      loops_.push_back({ir::var(iterators[k]), row, iterators[k].name});
    }
  }

  // The order with `last` innermost, or nullopt when the separators leave it no freedom.
  std::optional<LoopOrder> with_innermost(const std::vector<Dim>& separators, const Dim& last) const {
    RowSpace space;
    std::vector<Dim> outer;
    for (const Dim& dim : separators) {
      if (dim.value.same_as(last.value)) continue;
      if (space.add(dim.row)) outer.push_back(dim);
    }
    if (space.contains(last.row)) return std::nullopt;
    bool blocked = outer.empty();
    // The remaining loops, inner ones preferred (they tend to be short), in their original order.
    std::vector<Dim> summed;
    for (auto loop = loops_.rbegin(); loop != loops_.rend(); ++loop) {
      RowSpace with_loop = space;
      if (!with_loop.add(loop->row) || with_loop.contains(last.row)) continue;
      space = with_loop;
      summed.insert(summed.begin(), *loop);
    }
    if (blocked && !is_separator(separators, last)) return std::nullopt;
    return assemble(outer, summed, last, blocked);
  }

  const std::vector<Dim>& loops() const { return loops_; }

 private:
  static bool is_separator(const std::vector<Dim>& separators, const Dim& dim) {
    return std::any_of(separators.begin(), separators.end(),
                       [&](const Dim& separator) { return separator.value.same_as(dim.value); });
  }

  LoopOrder assemble(const std::vector<Dim>& outer, const std::vector<Dim>& summed, const Dim& last,
                     bool blocked) const {
    LoopOrder order;
    order.blocked = blocked;
    auto push = [&](const Expr& value, const std::string& name) {
      order.time.push_back(value);
      order.names.push_back(name);
    };
    auto block_of = [](const Expr& value, std::int64_t size) {
      return ir::binary(ir::BinaryOp::FloorDiv, value, ir::int_const(size));
    };
    std::vector<Row> rows;
    for (const Dim& dim : outer) rows.push_back(dim.row);
    for (const Dim& dim : summed) rows.push_back(dim.row);
    rows.push_back(last.row);
    // With a further loop between, several rows of the outermost dimension share what that loop reads.
    bool rows_in_blocks = !outer.empty() && outer.size() + summed.size() >= 2;
    auto block_name = [](const Dim& dim) { return dim.name.empty() ? std::string() : dim.name + "_block"; };
    if (blocked) push(block_of(last.value, elements_per_block), block_name(last));
    if (rows_in_blocks) push(block_of(outer[0].value, rows_per_block), block_name(outer[0]));
    for (std::size_t k = rows_in_blocks ? 1 : 0; k < outer.size(); ++k) push(outer[k].value, outer[k].name);
    for (const Dim& dim : summed) push(dim.value, dim.name);
    if (rows_in_blocks) push(outer[0].value, outer[0].name);
    push(last.value, last.name);
    for (const Dim& loop : loops_) push(loop.value, "");  // determined by now: no loops
    order.cost = access_cost(sum_, iterators_, direction_of_last(rows));
    return order;
  }

  const ir::Stmt& sum_;
  const std::vector<ir::Symbol>& iterators_;
  std::vector<Dim> loops_;
};

std::string name_of_separator(const Expr& e) {
  auto* node = e.as<ir::Var>();
  return node ? node->symbol.name : "";
}

}  // namespace

LoopOrder best_order(const ir::Stmt& sum, const std::vector<ir::Symbol>& iterators,
                     const std::vector<Expr>& separators) {
  std::vector<Dim> linear, loops;
  for (const Expr& e : separators) {
    if (auto row = row_of(e, iterators)) linear.push_back({e, *row, name_of_separator(e)});
  }
  OrderSearch search(sum, iterators);
  std::optional<LoopOrder> best;
  auto consider = [&](const Dim& last) {
    auto order = search.with_innermost(linear, last);
    if (!order) return;
    auto rank = [](const LoopOrder& o) { return std::pair(o.cost, o.blocked); };
    if (!best || rank(*order) < rank(*best)) best = order;
  };
  for (const Dim& dim : linear) consider(dim);
  if (!linear.empty()) {
    for (auto loop = search.loops().rbegin(); loop != search.loops().rend(); ++loop) consider(*loop);
  }
  if (best) return *best;
  LoopOrder plain;  // quasi-affine indices such as i // 2
  for (const Expr& e : separators) plain.time.push_back(e);
  for (const ir::Symbol& iterator : iterators) plain.time.push_back(ir::var(iterator));
  plain.names.resize(separators.size());
  return plain;
}

int access_cost(const ir::Stmt& s, const std::vector<ir::Symbol>& iterators, const Row& direction) {
  int cost = 0;
  ir::walk(
      s,
      [&](const ir::Stmt& child) {
        for_each_store(child, [&](const ir::Array&, const std::vector<Expr>& indices) {
          cost += cost_of_access(indices, iterators, direction);
        });
      },
      [&](const Expr& e) {
        if (auto* load = e.as<ir::Load>()) cost += cost_of_access(load->indices, iterators, direction);
      });
  return cost;
}

}  // namespace loopgrad::transforms
