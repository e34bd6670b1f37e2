#include "transforms/loops/loop_order.h"

#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <loopgrad/error.h>

#include <algorithm>
#include <cmath>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;
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

// One dimension of a candidate order.
struct Dim {
  Expr value;
  Row row;
  std::string name;
};

std::vector<Dim> independent(const std::vector<Dim>& dims, RowSpace& space) {
  std::vector<Dim> result;
  for (const Dim& dim : dims) {
    if (space.add(dim.row)) result.push_back(dim);
  }
  return result;
}

// Loops that together with the rows of `space` and with `last` tell all instances apart, but for `last`. Inner loops
// are preferred (they tend to be short); the result is in their original order.
std::vector<Dim> completing(const std::vector<Dim>& loops, RowSpace space, const Dim& last) {
  std::vector<Dim> result;
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) {
    RowSpace with_loop = space;
    if (!with_loop.add(loop->row) || with_loop.contains(last.row)) continue;
    space = with_loop;
    result.insert(result.begin(), *loop);
  }
  return result;
}

// An order from as many independent dims as there are iterators: they tell all instances apart.
LoopOrder order_of(const Stmt& sum, const std::vector<ir::Symbol>& iterators, const std::vector<Dim>& dims) {
  LoopOrder order;
  std::vector<Row> rows;
  for (const Dim& dim : dims) {
    rows.push_back(dim.row);
    order.time.push_back(dim.value);
    order.names.push_back(dim.name);
  }
  order.cost = access_cost(sum, iterators, direction_of_last(rows));
  return order;
}

std::string name_of_separator(const Expr& e) {
  auto* node = e.as<ir::Var>();
  return node ? node->symbol.name : "";
}

}  // namespace

LoopOrder best_order(const Stmt& sum, const std::vector<ir::Symbol>& iterators, const std::vector<Expr>& separators,
                     std::int64_t elements_at_once) {
  std::vector<Dim> given, loops;
  for (const Expr& e : separators) {
    auto row = row_of(e, iterators);
    if (!row) {  // a quasi-affine index such as i // 2: no choice
      LoopOrder plain{separators, {}, static_cast<int>(separators.size()), static_cast<int>(iterators.size()), 0, 0};
      for (const ir::Symbol& iterator : iterators) plain.time.push_back(ir::var(iterator));
      return plain;
    }
    given.push_back({e, *row, name_of_separator(e)});
  }
  for (std::size_t k = 0; k < iterators.size(); ++k) {
    Row row(iterators.size(), 0);
    row[k] = 1;
    loops.push_back({ir::var(iterators[k]), row, iterators[k].name});
  }
  RowSpace space;
  std::vector<Dim> outer = independent(given, space);
  auto summed_first =
      std::find_if(loops.begin(), loops.end(), [&](const Dim& dim) { return !space.contains(dim.row); });
  auto separating_before = static_cast<int>(summed_first - loops.begin());
  if (outer.empty()) throw InternalError("the separators of a sum do not vary");
  if (outer.size() == iterators.size()) {
    LoopOrder order = order_of(sum, iterators, outer);
    order.separating = order.separating_before = static_cast<int>(outer.size());
    return order;
  }

  std::optional<LoopOrder> best;
  for (auto last = loops.rbegin(); last != loops.rend(); ++last) {
    if (space.contains(last->row)) continue;
    std::vector<Dim> dims = outer;
    for (const Dim& dim : completing(loops, space, *last)) dims.push_back(dim);
    dims.push_back(*last);
    LoopOrder order = order_of(sum, iterators, dims);
    if (!best || order.cost < best->cost) best = order;
  }
  best->separating = static_cast<int>(outer.size());
  best->summed = static_cast<int>(iterators.size() - outer.size());
  best->separating_before = separating_before;
  if (outer.size() > 1 || elements_at_once == 0) return *best;

  std::vector<Dim> dims = completing(loops, RowSpace(), outer[0]);
  dims.push_back(outer[0]);
  LoopOrder blocked = order_of(sum, iterators, dims);
  if (blocked.cost >= best->cost) return *best;
  blocked.time.insert(blocked.time.begin(),
                      ir::binary(ir::BinaryOp::FloorDiv, outer[0].value, ir::int_const(elements_at_once)));
  blocked.names.insert(blocked.names.begin(), outer[0].name.empty() ? std::string() : outer[0].name + "_block");
  blocked.separating = best->separating;
  blocked.summed = best->summed;
  blocked.separating_before = separating_before;
  return blocked;
}

int access_cost(const std::vector<Expr>& indices, const std::vector<ir::Symbol>& iterators, const Row& direction) {
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

int access_cost(const Stmt& s, const std::vector<ir::Symbol>& iterators, const Row& direction) {
  int cost = 0;
  ir::walk(
      s,
      [&](const ir::Stmt& child) {
        for_each_store(child, [&](const ir::Array&, const std::vector<Expr>& indices) {
          cost += access_cost(indices, iterators, direction);
        });
      },
      [&](const Expr& e) {
        if (auto* load = e.as<ir::Load>()) cost += access_cost(load->indices, iterators, direction);
      });
  return cost;
}

}  // namespace loopgrad::transforms
