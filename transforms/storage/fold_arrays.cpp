#include "transforms/storage/fold_arrays.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/queries.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/lifetimes.h"
#include "transforms/analysis/nest.h"
#include "transforms/storage/sink_fills.h"
#include "transforms/storage/storage_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr unsigned long budget_per_question = 500'000;  // isl operations

// Whether every use is one that this re-addresses.
bool is_plain(const ir::Program& program, const ir::Array& array) {
  for (const ir::Fact& fact : program.facts)
    if ((fact.array == array && fact.kind != ir::FactKind::Distinct) || fact.other == array) return false;
  bool plain = true;
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    auto* product = s.as<ir::Contraction>();
    auto* pop = s.as<ir::Pop>();
    plain &= !(product && (product->a == array || product->b == array || product->c == array));
    plain &= !(pop && pop->array == array);
  });
  return plain;
}

// Whether a loop in order, in no parallel one, moves an index of a store: it may leave elements behind.
bool goes_in_order(const Stmt& s, const ir::Array& array, std::size_t dimension, std::vector<ir::Symbol> around) {
  bool found = false;
  const auto look = [&](const ir::Array& stored, const std::vector<Expr>& indices) {
    const auto moves = [&](const ir::Symbol& iterator) { return ir::mentions(indices[dimension], iterator); };
    found |= stored == array && std::any_of(around.begin(), around.end(), moves);
  };
  if (is_parallel_loop(s)) {
    for (const Stmt& leaf : leaves(s)) for_each_store(leaf, look);
    return found;
  }
  for_each_store(s, look);
  if (auto* loop = s.as<ir::For>()) around.push_back(loop->iterator);
  const auto below = [&](const Stmt& child) { found |= child && goes_in_order(child, array, dimension, around); };
  ir::for_each_child(s, ir::overloaded{[](const Expr&) {}, below});
  return found;
}

// How many places the dimension needs in `scope`, an Allocate of the program; nullopt: as many as it has.
std::optional<std::int64_t> places_in(const ir::Program& program, const Stmt& scope, std::size_t dimension,
                                      PassContext& context) {
  const auto& allocate = *scope.as<ir::Allocate>();
  try {
    const auto model = analyses(context).model_of(program, allocate.body);
    model->context->restart_budget(budget_per_question);
    const auto found = places_alive(*model, allocate.array, dimension);
    if (!found) return std::nullopt;
    const std::int64_t most = context.options.machine.most_in_place;
    const std::int64_t places = most && found->apart > most ? found->apart : found->in_place;
    const auto extent = ir::as_int(allocate.array->shape[dimension]);
    return extent && *extent <= places ? std::nullopt : std::optional(places);
  } catch (const poly::BudgetError&) {
    return std::nullopt;
  }
}

Expr folded(const Expr& index, std::int64_t places) {
  ir::LinearForm form = linear_form(index);
  form.constant = (form.constant % places + places) % places;  // t + 2 is in the place of t when there are two
  return simplify_indices(ir::binary(BinaryOp::Mod, to_expr(form), ir::int_const(places)));
}

Stmt with_places(const Stmt& scope, std::size_t dimension, std::int64_t places) {
  const auto& allocate = *scope.as<ir::Allocate>();
  const ir::Array& array = allocate.array;
  std::vector<Expr> shape = array->shape;
  shape[dimension] = ir::int_const(places);
  const ir::Array now = ir::make_array(array->name, array->type, shape, array->role, array->location);
  const auto place = [&](const ir::Array& other, std::vector<Expr> indices) -> std::optional<ir::ElementPlace> {
    if (other != array) return std::nullopt;
    indices[dimension] = folded(indices[dimension], places);
    return ir::ElementPlace{now, std::move(indices)};
  };
  return ir::allocate(now, ir::move_elements(allocate.body, place), scope->location);
}

Stmt scope_of(const ir::Array& array, const Stmt& body) {
  Stmt found;
  ir::walk_stmts(body, [&](const Stmt& s) {
    auto* scope = s.as<ir::Allocate>();
    if (scope && scope->array == array) found = s;
  });
  return found;
}

// Folds one dimension of an array where that is legal.
ir::Program fold(const ir::Program& program, ir::Array& array, std::size_t dimension, PassContext& context) {
  Stmt scope = scope_of(array, program.body);
  if (!goes_in_order(scope, array, dimension, {})) return program;
  ir::Program result = program;
  auto places = places_in(result, scope, dimension, context);
  if (const Stmt sunk = places ? Stmt() : sink_fills(program, scope, dimension)) {
    result = ir::with_body(program, replace(program.body, scope, sunk));
    scope = sunk;
    places = places_in(result, scope, dimension, context);
  }
  if (!places) return program;
  const std::string kept =
      fmt::format("{} of {} levels in dimension {}", *places, ir::print(array->shape[dimension]), dimension);
  note_storage(context, array, Storage::Folded, kept, "no more are alive at once", array->location);
  const Stmt now = with_places(scope, dimension, *places);
  array = now.as<ir::Allocate>()->array;
  return ir::with_body(result, replace(result.body, scope, now));
}

}  // namespace

ir::Program fold_arrays(const ir::Program& program, PassContext& context) {
  ir::Program result = program;
  for (LocalArray& local : locals_of(program.body)) {
    if (local.array->shape.size() < 2 || !is_plain(program, local.array)) continue;
    for (std::size_t d = 0; d < local.array->shape.size(); ++d) result = fold(result, local.array, d, context);
  }
  return result;
}

}  // namespace loopgrad::transforms
