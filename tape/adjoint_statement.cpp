#include "tape/adjoint_statement.h"

#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "tape/stores.h"

#include <loopgrad/error.h>

namespace loopgrad::tape {
namespace {

using ir::Expr;
using ir::Stmt;

bool targets(const Contribution& c, const Store& store) { return c.target->array == store.array; }

bool targets_same_element(const Contribution& c, const Store& store) {
  return targets(c, store) && c.guards.empty() && ir::equal(c.target->indices, store.indices);
}

Stmt emit(const Contribution& c, const ArrayMap& adjoints, SourceLocation location) {
  Stmt sum = ir::reduce(adjoints.at(c.target->array), c.target->indices, ir::ReduceOp::Add, c.value, location);
  for (auto guard = c.guards.rbegin(); guard != c.guards.rend(); ++guard) sum = ir::if_then(*guard, sum, {}, location);
  return sum;
}

/// t = d_A[f]; d_A[f] = 0 (Assign only); terms in t.
Stmt adjoint_through_copy(const Store& store, const ArrayMap& adjoints, const IsActive& active, const Expr& result) {
  const ir::Array& adjoint = adjoints.at(store.array);
  const ir::Array t = ir::make_array("seed", adjoint->type, {}, ir::ArrayRole::Local, store.location);
  std::vector<Stmt> body{ir::assign(t, {}, ir::load(adjoint, store.indices), store.location)};
  if (store.overwrites)
    body.push_back(ir::assign(adjoint, store.indices, ir::const_of(0, adjoint->type), store.location));
  for (const Contribution& c : contributions(store.value, ir::load(t, {}), active, result))
    body.push_back(emit(c, adjoints, store.location));
  return ir::allocate(t, ir::block(std::move(body)), store.location);
}

Stmt adjoint_of_store(const Store& store, const ArrayMap& adjoints, const AdjointOptions& options) {
  const IsActive active = [&](const ir::Array& a) { return adjoints.count(a) != 0; };
  if (!active(store.array)) return ir::block({});
  const ir::Array& adjoint = adjoints.at(store.array);
  const Expr seed = ir::load(adjoint, store.indices, store.location);
  const std::vector<Contribution> terms = contributions(store.value, seed, active, options.result);

  std::vector<Stmt> body;
  const Contribution* to_itself = nullptr;
  for (const Contribution& c : terms) {
    if (!targets(c, store)) {
      body.push_back(emit(c, adjoints, store.location));
    } else if (store.overwrites && targets_same_element(c, store) && !to_itself) {
      to_itself = &c;
    } else if (!store.overwrites && terms.size() == 1) {
      body.push_back(emit(c, adjoints, store.location));
    } else {
      return adjoint_through_copy(store, adjoints, active, options.result);
    }
  }
  if (to_itself) {
    if (!to_itself->value.same_as(seed))
      body.push_back(ir::assign(adjoint, store.indices, to_itself->value, store.location));
  } else if (store.overwrites && options.clear) {
    body.push_back(ir::assign(adjoint, store.indices, ir::const_of(0, adjoint->type), store.location));
  }
  return ir::block(std::move(body));
}

/// Only the operand that became the value has a derivative: it gets the adjoint, and what was there before gets none.
Stmt adjoint_of_extremum(const ir::Reduce& r, const ArrayMap& adjoints, const AdjointOptions& options) {
  if (!adjoints.count(r.array)) return ir::block({});
  const Expr taken = takes_operand(r);
  AdjointOptions as_assign = options;
  as_assign.result = {};
  const Store store{r.array, r.indices, r.value, r.location, true};
  return ir::if_then(taken, adjoint_of_store(store, adjoints, as_assign), {}, r.location);
}

}  // namespace

Expr takes_operand(const ir::Reduce& r) {
  return second_counts(ir::binary_of(r.op), ir::load(r.array, r.indices, r.location), r.value);
}

Stmt adjoint_of(const Stmt& statement, const ArrayMap& adjoints, const AdjointOptions& options) {
  if (statement.kind() == ir::Kind::Assign) return adjoint_of_store(store_of(statement), adjoints, options);
  if (const auto* r = statement.as<ir::Reduce>()) {
    if (r->op == ir::ReduceOp::Add) return adjoint_of_store(store_of(statement), adjoints, options);
    if (r->op != ir::ReduceOp::Mul) return adjoint_of_extremum(*r, adjoints, options);
    if (adjoints.count(r->array)) throw InternalError("the adjoint of '*=' on '" + r->array->name + "'");
  }
  return ir::block({});
}

Stmt expand_reductions(const Stmt& body, const std::set<ir::ReduceOp>& ops, const IsActive& active) {
  return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const auto* r = s.as<ir::Reduce>();
    if (!r || !ops.count(r->op) || !active(r->array)) return std::nullopt;
    const Expr old_value = ir::load(r->array, r->indices, r->location);
    return ir::assign(r->array, r->indices, ir::rounded_to(r->array->type, ir::combined(*r, old_value)), r->location);
  });
}

}  // namespace loopgrad::tape
