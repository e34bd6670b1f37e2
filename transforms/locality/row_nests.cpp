#include "transforms/locality/row_nests.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;
using poly::Access;
using poly::AccessKind;
using poly::Statement;

namespace {

constexpr std::int64_t most_rows = 4;  // that a dependence may reach up or down

// Sums and recurrences compute on what they have loaded, so that memory is not what they wait for.
bool has_sequential_loop(const Stmt& s) {
  bool found = false;
  ir::walk_stmts(s, [&](const Stmt& child) {
    found |= child.kind() == ir::Kind::While || (child.kind() == ir::Kind::For && !is_parallel_loop(child));
  });
  return found;
}

// Whether a statement touches elements of rows only, none of arrays that lie along the rows' iterator: iterations side
// by side would not be neighbours in memory.
bool is_at_ends(const Stmt& s, const ir::Symbol& rows) {
  bool along = false;
  auto note = [&](const std::vector<Expr>& indices) { along |= !indices.empty() && mentions(indices.back(), rows); };
  for_each_store(s, [&](const ir::Array&, const std::vector<Expr>& indices) { note(indices); });
  ir::walk(
      s, [](const Stmt&) {},
      [&](const Expr& e) {
        if (auto* load = e.as<ir::Load>()) note(load->indices);
      });
  return !along;
}

// Whether all the work of a row is in parallel loops or at its ends.
bool is_row(const Stmt& s, const ir::Symbol& rows) {
  auto is_row_too = [&](const Stmt& child) { return is_row(child, rows); };
  if (auto* block = s.as<ir::Block>()) return std::all_of(block->body.begin(), block->body.end(), is_row_too);
  if (auto* branch = s.as<ir::If>()) {
    return !ir::has_load(branch->condition) && is_row_too(branch->then_body) &&
           (!branch->else_body || is_row_too(branch->else_body));
  }
  if (auto* local = s.as<ir::Allocate>()) return local->array->shape.empty() && is_row_too(local->body);
  if (auto* sum = s.as<ir::Reduce>()) return !sum->atomic && is_at_ends(s, rows);
  if (s.kind() == ir::Kind::Assign) return is_at_ends(s, rows);
  return is_parallel_loop(s) && !has_sequential_loop(s);
}

bool belongs(const Statement& s, const RowNest& nest) { return !s.loops.empty() && s.loops[0].same_as(nest.loop); }

// Which index of an access follows the rows.
std::optional<std::size_t> row_dimension(const Access& access, const Statement& s) {
  for (std::size_t dim = 0; dim < access.indices.size(); ++dim)
    if (mentions(access.indices[dim], s.iterators[0])) return dim;
  return std::nullopt;
}

std::optional<std::int64_t> integer(const poly::Context& context, isl_val* value) {
  const isl::val owned = poly::checked(context, value);
  if (isl_val_is_int(owned.get()) != isl_bool_true) return std::nullopt;
  return isl_val_get_num_si(owned.get());
}

}  // namespace

std::optional<RowNest> row_nest_of(const Stmt& s) {
  RowNest nest;
  nest.statement = nest.loop = s;
  while (auto* branch = nest.loop.as<ir::If>()) {
    if (branch->else_body || ir::has_load(branch->condition)) return std::nullopt;
    nest.conditions.push_back(branch->condition);
    Stmt inner = branch->then_body;
    if (auto* block = inner.as<ir::Block>(); block && block->body.size() == 1) inner = block->body[0];
    nest.loop = inner;
  }
  if (!is_parallel_loop(nest.loop)) return std::nullopt;
  const ir::For& rows = nest.rows();
  if (ir::has_load(rows.lower) || ir::has_load(rows.upper) || has_contraction(s)) return std::nullopt;
  if (is_row(rows.body, rows.iterator)) nest.kind = contains_parallel_loop(rows.body) ? RowKind::Rows : RowKind::Ends;
  return nest;
}

const ir::For* rows_within(const RowNest& nest) {
  Stmt body = nest.rows().body;
  if (auto* block = body.as<ir::Block>(); block && block->body.size() == 1) body = block->body[0];
  if (!is_parallel_loop(body)) return nullptr;
  auto* loop = body.as<ir::For>();
  const bool plain = !ir::has_load(loop->lower) && !ir::has_load(loop->upper);
  return plain && contains_parallel_loop(loop->body) ? loop : nullptr;
}

std::optional<RowReach> RowDistances::between(const RowNest& first, const RowNest& second) const {
  RowReach reach;
  for (const Statement& a : model_.statements) {
    if (!belongs(a, first)) continue;
    for (const Statement& b : model_.statements) {
      if (belongs(b, second) && !extend(reach, a, b)) return std::nullopt;
    }
  }
  return reach;
}

bool RowDistances::independent(const RowNest& first, const RowNest& second) const {
  for (const Statement& a : model_.statements) {
    for (const Statement& b : model_.statements) {
      if (!belongs(a, first) || !belongs(b, second)) continue;
      for (const Access& x : a.accesses)
        for (const Access& y : b.accesses)
          if (!conflicts(a, x, b, y).is_empty()) return false;
    }
  }
  return true;
}

bool RowDistances::rows_within_match(const RowNest& first, const RowNest& second) const {
  const ir::For *a = rows_within(first), *b = rows_within(second);
  if (!a || !b || first.behind != second.behind || first.peel_low != second.peel_low) return false;
  auto same_bounds = [](const ir::For& x, const ir::For& y, const ir::Substitution& names) {
    return same_value(x.lower, ir::substitute(y.lower, names)) && same_value(x.upper, ir::substitute(y.upper, names));
  };
  if (!ir::equal(first.conditions, second.conditions) || !same_bounds(first.rows(), second.rows(), {}) ||
      !same_bounds(*a, *b, {{second.rows().iterator, ir::var(first.rows().iterator)}}))
    return false;
  for (const Statement& x : model_.statements)
    for (const Statement& y : model_.statements)
      if (belongs(x, first) && belongs(y, second) && !match_within(x, y)) return false;
  return true;
}

// Whether instances in conflict that are in the same row are in the same row within it, too.
bool RowDistances::match_within(const Statement& a, const Statement& b) const {
  for (const Access& x : a.accesses) {
    for (const Access& y : b.accesses) {
      isl_map* same_row = isl_map_equate(conflicts(a, x, b, y).release(), isl_dim_in, 0, isl_dim_out, 0);
      const isl::map pairs = poly::checked(*model_.context, same_row);
      const isl::map within =
          poly::checked(*model_.context, isl_map_equate(pairs.copy(), isl_dim_in, 1, isl_dim_out, 1));
      if (!pairs.is_subset(within)) return false;
    }
  }
  return true;
}

bool RowDistances::assigned_before_read(const ir::Array& array, const std::vector<RowNest>& nests) const {
  std::optional<isl::set> read, assigned;
  auto add = [](std::optional<isl::set>& to, const isl::set& part) { to = to ? to->unite(part) : part; };
  for (const Statement& s : model_.statements) {
    if (std::none_of(nests.begin(), nests.end(), [&](const RowNest& nest) { return belongs(s, nest); })) continue;
    for (const Access& access : s.accesses) {
      if (access.array != array) continue;
      const isl::set elements = access.relation.intersect_params(model_.assumptions).range();
      if (access.kind == AccessKind::Read) add(read, elements);
      else if (s.stmt.kind() != ir::Kind::Assign || !access.exact) return false;
      else add(assigned, elements);
    }
  }
  return read && assigned && read->is_subset(*assigned);
}

// Pairs of instances that touch the same element and not both only read it.
isl::map RowDistances::conflicts(const Statement& a, const Access& x, const Statement& b, const Access& y) const {
  if ((x.kind == AccessKind::Read && y.kind == AccessKind::Read) || (x.array != y.array && model_.aliases.empty()))
    return poly::unrelated_pairs(a, b, false);
  return poly::touching_pairs(model_, a, x, b, y)
      .intersect_domain(a.domain)
      .intersect_range(b.domain)
      .intersect_params(model_.assumptions);
}

bool RowDistances::extend(RowReach& reach, const Statement& a, const Statement& b) const {
  for (const Access& x : a.accesses) {
    for (const Access& y : b.accesses) {
      const auto row = row_dimension(x, a);
      reach.shares |= x.array == y.array && row && row == row_dimension(y, b);
      if (!extend(reach, conflicts(a, x, b, y))) return false;
    }
  }
  return true;
}

bool RowDistances::extend(RowReach& reach, const isl::map& pairs) const {
  if (pairs.is_empty()) return true;
  isl_map* rows = pairs.copy();
  for (const auto side : {isl_dim_in, isl_dim_out}) {
    rows = isl_map_project_out(rows, side, 1, static_cast<unsigned>(isl_map_dim(rows, side)) - 1);
    rows = isl_map_reset_tuple_id(rows, side);
  }
  const isl::set ahead = poly::checked(*model_.context, isl_map_deltas(rows));  // second - first
  const auto least = integer(*model_.context, isl_set_dim_min_val(ahead.copy(), 0)),
             most = integer(*model_.context, isl_set_dim_max_val(ahead.copy(), 0));
  if (!least || !most) return false;
  reach.down = std::max(reach.down, -*least);
  reach.up = std::max(reach.up, *most);
  return reach.down <= most_rows && reach.up <= most_rows;
}

}  // namespace loopgrad::transforms
