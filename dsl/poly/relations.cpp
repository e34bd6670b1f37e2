#include "dsl/poly/relations.h"

#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/poly/coalesced.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>

namespace loopgrad::poly {

using ir::BinaryOp;
using ir::Expr;

Expr in_bounds(const Expr& index, const Expr& lower, const Expr& upper) {
  return both(ir::binary(BinaryOp::Ge, index, lower), ir::binary(BinaryOp::Lt, index, upper));
}

isl::set points_of(const Scope& scope, const Expr& condition, const Abstraction& abstraction,
                   const std::optional<isl::set>& domain) {
  Scope wide = scope;
  wide.iterators.insert(wide.iterators.end(), abstraction.symbols().begin(), abstraction.symbols().end());
  wide.tuple.clear();
  wide.never_wraps = true;
  Expr all = condition;
  for (const Expr& constraint : abstraction.constraints()) all = both(all, constraint);
  std::optional<isl::set> within;
  if (domain) {
    isl_set* set = isl_set_reset_tuple_id(domain->copy());
    const auto known = static_cast<unsigned>(isl_set_dim(set, isl_dim_set));
    set = isl_set_add_dims(set, isl_dim_set, static_cast<unsigned>(wide.iterators.size()) - known);
    within = checked(*scope.context, set);
  }
  auto points = to_set(all, wide, abstraction.symbols(), within);
  if (!points) throw InternalError("an abstracted condition is not affine");
  auto first = static_cast<unsigned>(scope.iterators.size());
  auto count = static_cast<unsigned>(abstraction.symbols().size());
  return checked(*scope.context, isl_set_project_out(points->release(), isl_dim_set, first, count));
}

namespace {

bool has_cases(const Expr& e) {
  bool found = false;
  ir::walk(e, [&](const Expr& part) {
    auto* node = part.as<ir::Binary>();
    found = found || part.as<ir::Select>() || (node && (node->op == BinaryOp::Min || node->op == BinaryOp::Max));
  });
  return found;
}

}  // namespace

isl::map relation_of(const std::shared_ptr<Context>& context, const Statement& statement,
                     const std::vector<Expr>& values, const Expr& condition, const Abstraction& abstraction,
                     const std::optional<isl::id>& tuple, const std::map<std::size_t, Expr>& below) {
  // The values become symbols themselves: the relation is the set [iterators, values, symbols] seen as a map.
  Scope scope = {context, statement.iterators, ""};
  Expr all = condition;
  for (std::size_t k = 0; k < values.size(); ++k) scope.iterators.push_back(ir::make_symbol("e"));
  const auto name_of = [&](std::size_t k) { return ir::var(scope.iterators[statement.iterators.size() + k]); };
  // A value of several cases is mentioned once: the cases of one mention would be combined with those of another.
  for (const auto& [k, extent] : below)
    all = both(all, in_bounds(has_cases(values[k]) ? name_of(k) : values[k], ir::int_const(0), extent));
  for (std::size_t k = 0; k < values.size(); ++k) all = both(all, ir::binary(BinaryOp::Eq, name_of(k), values[k]));
  isl_map* map = isl_map_from_range(points_of(scope, all, abstraction, statement.domain).release());
  map = isl_map_move_dims(map, isl_dim_in, 0, isl_dim_out, 0, static_cast<unsigned>(statement.iterators.size()));
  map = isl_map_set_tuple_name(map, isl_dim_in, statement.name.c_str());
  if (tuple) map = isl_map_set_tuple_id(map, isl_dim_out, tuple->copy());
  return coalesced(checked(*context, map));
}

// `guard` holds when `e` is evaluated (operands of select, && and || may not be).
void AccessBuilder::add_reads(const Expr& e, Statement& statement, const Expr& guard) const {
  if (auto* node = e.as<ir::Select>()) {
    add_reads(node->condition, statement, guard);
    add_reads(node->a, statement, both(guard, node->condition));
    add_reads(node->b, statement, both(guard, ir::unary(ir::UnaryOp::Not, node->condition)));
    return;
  }
  if (auto* node = e.as<ir::Binary>(); node && (node->op == BinaryOp::And || node->op == BinaryOp::Or)) {
    add_reads(node->a, statement, guard);
    bool conjunction = node->op == BinaryOp::And;
    add_reads(node->b, statement, both(guard, conjunction ? node->a : ir::unary(ir::UnaryOp::Not, node->a)));
    return;
  }
  ir::for_each_child(e, [&](const Expr& child) { add_reads(child, statement, guard); });
  if (auto* node = e.as<ir::Load>()) {
    Access read = access(AccessKind::Read, node->array, node->indices, statement, guard);
    read.load = e;
    read.guard = guard;
    statement.accesses.push_back(std::move(read));
  }
}

Access AccessBuilder::access(AccessKind kind, const ir::Array& array, const std::vector<Expr>& indices,
                             const Statement& statement, const Expr& guard) const {
  using Remainders = Abstraction::Remainders;
  Access access;
  access.kind = kind;
  access.array = array;
  access.indices = indices;
  Abstraction exactly(facts_, Remainders::OfFewPeriods, *numbers_), of_guard(facts_);
  set_relation(access, statement, guard, exactly);
  if (exactly.has_periods()) {
    const Scope scope{context_, statement.iterators, statement.name};
    isl_set* const happens = points_of(scope, of_guard.condition(guard, true), of_guard).release();
    const isl::set named = checked(*context_, isl_set_set_tuple_name(happens, statement.name.c_str()));
    if (!named.intersect(statement.domain).is_subset(access.relation.domain())) {
      Abstraction any(facts_, Remainders::Any, *numbers_);
      set_relation(access, statement, guard, any);
    }
  }
  for (std::size_t k = 0; k < indices.size(); ++k) {
    note_indirect(access, static_cast<int>(k), statement);
    note_entry(access, static_cast<int>(k), statement);
  }
  return access;
}

void AccessBuilder::set_relation(Access& access, const Statement& statement, const Expr& guard,
                                 Abstraction& abstraction) const {
  std::vector<Expr> element = local_prefix(access.array, statement);
  Expr condition = abstraction.condition(guard, true);
  std::map<std::size_t, Expr> below;
  for (std::size_t k = 0; k < access.indices.size(); ++k) {
    bool was_exact = abstraction.exact();
    element.push_back(abstraction.value(access.indices[k]));
    if (was_exact && abstraction.exact()) continue;
    // Programs keep their indices in bounds, which is worth knowing where nothing better is.
    Abstraction extent(facts_);
    Expr upper = extent.value(access.array->shape[k]);
    if (extent.exact()) below[element.size() - 1] = upper;
  }
  access.relation =
      relation_of(context_, statement, element, condition, abstraction, context_->id_of(access.array), below);
  access.exact = statement.exact && abstraction.exact();
}

std::size_t AccessBuilder::loops_around(const ir::Array& array) const {
  const auto found = local_depth_.find(array->id);
  return found == local_depth_.end() ? 0 : found->second + 1;
}

std::vector<Expr> AccessBuilder::local_prefix(const ir::Array& array, const Statement& statement) const {
  std::vector<Expr> prefix;
  auto found = local_depth_.find(array->id);
  if (found == local_depth_.end()) return prefix;
  for (std::size_t k = 0; k < found->second; ++k) prefix.push_back(ir::var(statement.iterators[k]));
  return prefix;
}

void AccessBuilder::note_indirect(Access& access, int dim, const Statement& statement) const {
  const ir::Load* load = as_indirect(access.indices[static_cast<std::size_t>(dim)]);
  if (!load || local_depth_.count(load->array->id)) return;
  const bool is_distinct = facts_.is_distinct(load->array);
  if (!is_distinct && !facts_.is_constant(load->array)) return;
  Abstraction abstraction(facts_);
  std::vector<Expr> subscript;
  for (const Expr& index : load->indices) subscript.push_back(abstraction.value(index));
  if (!abstraction.exact()) return;
  isl::map map =
      relation_of(context_, statement, subscript, ir::bool_const(true), abstraction, context_->id_of(load->array));
  access.indirect.push_back({dim, load->array, map, is_distinct || facts_.is_injective(load->array)});
}

namespace {

/// An index that is `pointer[row] + place`: the load, and the place in i64.
std::optional<std::pair<const ir::Load*, Expr>> entry_in(const Expr& index) {
  const auto* sum = index.as<ir::Binary>();
  if (!sum || (sum->op != ir::BinaryOp::Add && sum->op != ir::BinaryOp::Sub)) return std::nullopt;
  if (const auto* load = as_indirect(sum->a))
    return std::pair(load, sum->op == ir::BinaryOp::Add ? sum->b : ir::unary(ir::UnaryOp::Neg, sum->b));
  if (const auto* load = as_indirect(sum->b); load && sum->op == ir::BinaryOp::Add) return std::pair(load, sum->a);
  const auto inside = entry_in(sum->a);
  if (!inside) return std::nullopt;
  return std::pair(inside->first, ir::binary(sum->op, inside->second, sum->b));
}

/// Whether the loop ends within the row that begins at `first`, and `beyond` iterations later still does.
bool ends_within(const ir::For& loop, const ir::Load& first, std::int64_t beyond) {
  const ir::Entry end = ir::entry_of(loop.upper);
  const ir::Load* const own = ir::row_length(end.base).first;
  return own && end.offset + beyond <= 0 && own->array == first.array && ir::equal(own->indices, first.indices);
}

}  // namespace

void AccessBuilder::note_entry(Access& access, int dim, const Statement& statement) const {
  const auto entry = entry_in(access.indices[static_cast<std::size_t>(dim)]);
  if (!entry || !facts_.is_csr_pointer(entry->first->array) || !facts_.is_constant(entry->first->array)) return;
  const auto& [first, place] = *entry;
  if (ir::has_load(place)) return;
  const bool ends = std::any_of(statement.loops.begin(), statement.loops.end(), [&](const ir::Stmt& s) {
    const auto* loop = s.as<ir::For>();
    const auto beyond = loop ? distance(place, ir::var(loop->iterator)) : std::nullopt;
    return beyond && ends_within(*loop, *first, *beyond);
  });
  if (!ends) return;
  Abstraction abstraction(facts_);
  const std::vector<Expr> subscript = {abstraction.value(first->indices[0]), abstraction.value(place)};
  if (!abstraction.exact() || !abstraction.symbols().empty()) return;
  const Scope scope{context_, statement.iterators, statement.name};
  const Expr before = ir::binary(ir::BinaryOp::Lt, subscript[1], ir::int_const(0));
  isl_set* const outside =
      isl_set_set_tuple_name(points_of(scope, before, abstraction).release(), statement.name.c_str());
  if (!checked(*context_, outside).intersect(statement.domain).is_empty()) return;
  isl::map map =
      relation_of(context_, statement, subscript, ir::bool_const(true), abstraction, context_->id_of(first->array));
  access.indirect.push_back({dim, first->array, map, true, true});
}

void AccessBuilder::add_write(AccessKind kind, const ir::Array& array, const std::vector<Expr>& indices,
                              ir::ReduceOp op, Statement& statement) const {
  Access write = access(kind, array, indices, statement, ir::bool_const(true));
  write.op = op;
  statement.accesses.push_back(std::move(write));
}

}  // namespace loopgrad::poly
