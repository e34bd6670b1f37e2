#include "dsl/poly/isl_bridge.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/visit.h"
#include "dsl/ir/wrapping.h"
#include "dsl/poly/coalesced.h"
#include "dsl/poly/intersections.h"
#include "dsl/poly/isl_memory.h"
#include "dsl/poly/linear_constraints.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace loopgrad::poly {

using ir::BinaryOp;
using ir::Expr;
using ir::UnaryOp;

namespace {

ErrorInfo budget_info() {
  ErrorInfo info;
  info.code = ErrorCode::BudgetExceeded;
  info.message = "the polyhedral analysis exceeded its work limit";
  return info;
}

// isl's own printing of errors is turned off: reporting is left to the exceptions.
isl_ctx* make_context() {
  isl_ctx* ctx = allocate_context();
  isl_options_set_on_error(ctx, ISL_ON_ERROR_CONTINUE);
  return ctx;
}

thread_local unsigned long largest_budget = 0;  // 0: no limit

std::optional<isl::pw_aff> constant(std::int64_t value, const Scope& scope) {
  isl::val v(scope.context->isl(), static_cast<long>(value));
  return checked(*scope.context, isl_pw_aff_val_on_domain(scope.universe().release(), v.release()));
}

isl::pw_aff variable(const ir::Symbol& symbol, const Scope& scope) {
  Context& context = *scope.context;
  for (std::size_t k = 0; k < scope.iterators.size(); ++k) {
    if (!(scope.iterators[k] == symbol)) continue;
    isl_local_space* local = isl_local_space_from_space(scope.space().release());
    isl_aff* aff = isl_aff_var_on_domain(local, isl_dim_set, static_cast<unsigned>(k));
    return checked(context, isl_pw_aff_from_aff(aff));
  }
  isl::id id = context.id_of(symbol);
  isl_space* space = isl_space_add_param_id(scope.space().release(), id.copy());
  return checked(context, isl_pw_aff_from_aff(isl_aff_param_on_domain_space_id(space, id.release())));
}

// A bool expression as 0 or 1.
std::optional<isl::pw_aff> indicator(const Expr& e, const Scope& scope) {
  auto set = to_set(e, scope);
  if (!set) return std::nullopt;
  return checked(*scope.context, isl_set_indicator_function(set->release()));
}

std::optional<isl::pw_aff> binary_to_pw_aff(const ir::Binary& node, const Scope& scope) {
  if (!is_integer(node.type)) return std::nullopt;
  auto a = to_pw_aff(node.a, scope);
  if (!a) return std::nullopt;
  if (node.op == BinaryOp::FloorDiv || node.op == BinaryOp::Mod) {
    auto divisor = ir::as_int(node.b);
    if (!divisor || *divisor <= 0) return std::nullopt;
    isl::val v(scope.context->isl(), static_cast<long>(*divisor));
    if (node.op == BinaryOp::Mod) return a->mod(v);
    return checked(*scope.context, isl_pw_aff_floor(isl_pw_aff_scale_down_val(a->release(), v.release())));
  }
  auto b = to_pw_aff(node.b, scope);
  if (!b) return std::nullopt;
  switch (node.op) {
    case BinaryOp::Add: return a->add(*b);
    case BinaryOp::Sub: return a->sub(*b);
    case BinaryOp::Mul:
      // As in Abstraction: only a literal counts, whatever isl might find out.
      if (!ir::as_int(node.a) && !ir::as_int(node.b)) return std::nullopt;
      return a->mul(*b);
    case BinaryOp::Min: return a->min(*b);
    case BinaryOp::Max: return a->max(*b);
    default: return std::nullopt;
  }
}

std::optional<isl::pw_aff> select_to_pw_aff(const ir::Select& node, const Scope& scope) {
  auto condition = to_set(node.condition, scope);
  auto a = to_pw_aff(node.a, scope), b = to_pw_aff(node.b, scope);
  if (!condition || !a || !b) return std::nullopt;
  return a->intersect_domain(*condition).union_add(b->intersect_domain(condition->complement()));
}

std::optional<isl::pw_aff> cast_to_pw_aff(const ir::Cast& node, const Scope& scope) {
  if (!is_integer(node.type)) return std::nullopt;
  if (node.a.type() == ScalarType::Bool) return indicator(node.a, scope);
  bool widens = is_integer(node.a.type()) && bytes_of(node.a.type()) <= bytes_of(node.type);
  return widens ? to_pw_aff(node.a, scope) : std::nullopt;
}

std::optional<isl::set> comparison_to_set(const ir::Binary& node, const Scope& scope) {
  if (!is_integer(node.a.type())) return std::nullopt;
  auto a = to_pw_aff(node.a, scope), b = to_pw_aff(node.b, scope);
  if (!a || !b) return std::nullopt;
  switch (node.op) {
    case BinaryOp::Lt: return a->lt_set(*b);
    case BinaryOp::Le: return a->le_set(*b);
    case BinaryOp::Gt: return a->gt_set(*b);
    case BinaryOp::Ge: return a->ge_set(*b);
    case BinaryOp::Eq: return a->eq_set(*b);
    case BinaryOp::Ne: return a->ne_set(*b);
    default: return std::nullopt;
  }
}

// Turns set dimensions into parameters named by fresh ids, since isl's AST builder only takes functions of parameters.
struct Binder {
  Names names;  // filled while `tuple` is made, so declared before it
  isl::multi_id tuple;

  Binder(const isl::space& domain, const std::vector<Expr>& dims, Context& context)
      : tuple(make_tuple(domain, dims, context, names)) {}

 private:
  static isl::multi_id make_tuple(const isl::space& domain, const std::vector<Expr>& dims, Context& context,
                                  Names& names) {
    auto n = static_cast<unsigned>(isl_space_dim(domain.get(), isl_dim_set));
    if (n != dims.size())
      throw InternalError("an isl function has " + std::to_string(n) + " dimensions, " + std::to_string(dims.size()) +
                          " expressions were given");
    isl::id_list list(context.isl(), static_cast<int>(n));
    for (unsigned k = 0; k < n; ++k) {
      isl::id id = context.fresh_id("d");
      names.emplace(id.name(), dims[k]);
      list = list.add(id);
    }
    return isl::multi_id(domain, list);
  }
};

Expr as_bool(const Expr& e) { return e.type() == ScalarType::Bool ? e : ir::binary(BinaryOp::Ne, e, ir::int_const(0)); }

// Of a function or a set that has parameters alone, where `known` holds (a set of parameters, too).
template <class Function>
isl::ast_expr expr_of(const Function& f, const std::optional<isl::set>& known, Context& context) {
  const isl::set place = known ? *known : isl::set::universe(isl::space::unit(context.isl()));
  return ast_builder(place, f.space()).expr_from(f);
}

std::optional<isl::set> bound(const std::optional<isl::set>& known, const Binder& binder) {
  return known ? std::optional(known->bind(binder.tuple)) : std::nullopt;
}

Expr fold(const isl::ast_expr_op& op, const Names& names, const Context& context, BinaryOp with) {
  bool logic = with == BinaryOp::And || with == BinaryOp::Or;  // isl writes true and false as numbers
  auto argument = [&](int k) {
    Expr e = to_expr(op.arg(k), names, context);
    return logic ? as_bool(e) : e;
  };
  Expr result = argument(0);
  int n = static_cast<int>(isl_ast_expr_get_op_n_arg(op.get()));
  for (int k = 1; k < n; ++k) result = ir::binary(with, result, argument(k));
  return result;
}

BinaryOp binary_of(isl_ast_expr_op_type type) {
  switch (type) {
    case isl_ast_expr_op_and:
    case isl_ast_expr_op_and_then: return BinaryOp::And;
    case isl_ast_expr_op_or:
    case isl_ast_expr_op_or_else: return BinaryOp::Or;
    case isl_ast_expr_op_max: return BinaryOp::Max;
    case isl_ast_expr_op_min: return BinaryOp::Min;
    case isl_ast_expr_op_add: return BinaryOp::Add;
    case isl_ast_expr_op_sub: return BinaryOp::Sub;
    case isl_ast_expr_op_mul: return BinaryOp::Mul;
    case isl_ast_expr_op_div:  // known to be exact: floor is as good
    case isl_ast_expr_op_fdiv_q:
    case isl_ast_expr_op_pdiv_q: return BinaryOp::FloorDiv;
    case isl_ast_expr_op_pdiv_r:
    case isl_ast_expr_op_zdiv_r: return BinaryOp::Mod;  // zdiv_r is only compared with 0
    case isl_ast_expr_op_eq: return BinaryOp::Eq;
    case isl_ast_expr_op_le: return BinaryOp::Le;
    case isl_ast_expr_op_lt: return BinaryOp::Lt;
    case isl_ast_expr_op_ge: return BinaryOp::Ge;
    case isl_ast_expr_op_gt: return BinaryOp::Gt;
    default: throw InternalError("isl built an expression of unknown kind");
  }
}

}  // namespace

isl::ast_build ast_builder(const isl::set& known, const isl::space& of) {
  isl_set* const in_order = isl_set_align_params(known.copy(), isl_space_params(of.copy()));
  if (!in_order) isl::exception::throw_last_error(known.ctx());
  return isl::ast_build::from_context(isl::manage(in_order));
}

BudgetError::BudgetError() : Error(budget_info()) {}

void throw_as_ours(const isl::exception& e, isl::ctx ctx) {
  const isl_error before = error_of_this_thread();
  if (before == isl_error_alloc || before == isl_error_abort) throw std::bad_alloc();
  if (dynamic_cast<const isl::exception_alloc*>(&e) || dynamic_cast<const isl::exception_abort*>(&e))
    throw std::bad_alloc();
  const bool is_quota = dynamic_cast<const isl::exception_quota*>(&e) || before == isl_error_quota || is_spent(ctx);
  if (is_quota || dynamic_cast<const isl::exception_internal*>(&e)) throw BudgetError();
  // Where memory is short isl may also report what followed from it.
  void* volatile little = std::malloc(std::size_t{1} << 20);  // volatile: or it would not be asked for
  if (!little) throw std::bad_alloc();
  std::free(little);
  throw InternalError(std::string("isl: ") + e.what());
}

void Context::Free::operator()(isl_ctx* ctx) const { free_context(ctx); }

Context::Context(unsigned long budget) : ctx_(make_context()) { restart_budget(budget); }

BudgetCap::BudgetCap(unsigned long most) : outer_(largest_budget) { largest_budget = most; }
BudgetCap::~BudgetCap() { largest_budget = outer_; }

bool is_spent(isl::ctx ctx) {
  // Every allocation counts as an operation.
  isl_val* probe = isl_val_int_from_si(ctx.get(), 1);
  isl_val_free(probe);
  return !probe;
}

void Context::restart(unsigned long operations) {
  isl_ctx_reset_error(ctx_.get());
  isl_ctx_set_max_operations(ctx_.get(), operations);
  isl_ctx_reset_operations(ctx_.get());
}

void Context::restart_budget(unsigned long budget) {
  if (largest_budget && (budget == 0 || budget > largest_budget)) budget = largest_budget;
  budget_ = budget;
  restart(budget);
}

void Context::restart_budget_once(unsigned long most) { restart(budget_ ? std::min(budget_, most) : most); }

void Context::restart_without_budget() { restart(0); }

isl::id Context::fresh_id(const std::string& name) { return isl::id(isl(), name + "_" + std::to_string(count_++)); }

isl::id Context::id_of(const ir::Symbol& symbol) {
  auto found = ids_.find(symbol.id);
  if (found != ids_.end()) return found->second;
  isl::id id = fresh_id(symbol.name);
  symbols_.emplace(id.name(), symbol);
  return ids_.emplace(symbol.id, id).first->second;
}

isl::id Context::id_of(const ir::Array& array) {
  auto found = ids_.find(array->id);
  if (found != ids_.end()) return found->second;
  isl::id id = fresh_id(array->name);
  arrays_.emplace(id.name(), array);
  return ids_.emplace(array->id, id).first->second;
}

const ir::Symbol& Context::symbol_of(const isl::id& id) const {
  auto found = symbols_.find(id.name());
  // isl (0.25) sometimes bounds a loop by its own iterator, as in c1 <= c0 - 3*floord(c0 - c1 - 1, 3): a defect, after
  // which as little is known as past the budget.
  if (found == symbols_.end()) throw BudgetError();
  return found->second;
}

const ir::Array& Context::array_of(const isl::id& id) const {
  auto found = arrays_.find(id.name());
  if (found == arrays_.end()) throw InternalError("isl id '" + id.name() + "' is not an array");
  return found->second;
}

isl::space Scope::space() const {
  isl_space* space = isl_space_set_alloc(context->isl().get(), 0, static_cast<unsigned>(iterators.size()));
  if (!tuple.empty()) space = isl_space_set_tuple_name(space, isl_dim_set, tuple.c_str());
  return checked(*context, space);
}

isl::set Scope::universe() const { return isl::set::universe(space()); }

std::optional<isl::pw_aff> to_pw_aff(const Expr& e, const Scope& scope) {
  return guarded(*scope.context, [&] {
    return ir::visit(e, ir::overloaded{[&](const ir::IntConst& node) { return constant(node.value, scope); },
                                       [&](const ir::Var& node) { return std::optional(variable(node.symbol, scope)); },
                                       [&](const ir::Unary& node) -> std::optional<isl::pw_aff> {
                                         if (!is_integer(node.type)) return std::nullopt;
                                         auto a = to_pw_aff(node.a, scope);
                                         if (!a) return std::nullopt;
                                         if (node.op == UnaryOp::Neg) return a->neg();
                                         if (node.op == UnaryOp::Abs) return a->max(a->neg());
                                         return std::nullopt;
                                       },
                                       [&](const ir::Binary& node) -> std::optional<isl::pw_aff> {
                                         if (!scope.never_wraps && ir::may_wrap(e)) return std::nullopt;
                                         return binary_to_pw_aff(node, scope);
                                       },
                                       [&](const ir::Select& node) {
                                         return is_integer(node.type) ? select_to_pw_aff(node, scope) : std::nullopt;
                                       },
                                       [&](const ir::Cast& node) { return cast_to_pw_aff(node, scope); },
                                       [&](const auto&) -> std::optional<isl::pw_aff> { return std::nullopt; }});
  });
}

namespace {

void split_conjunction(const Expr& e, std::vector<Expr>& conjuncts) {
  auto* node = e.as<ir::Binary>();
  if (!node || node->op != BinaryOp::And) return conjuncts.push_back(e);
  split_conjunction(node->a, conjuncts);
  split_conjunction(node->b, conjuncts);
}

std::optional<isl::set> conjunct_to_set(const Expr& condition, const Scope& scope) {
  if (condition.type() != ScalarType::Bool) return std::nullopt;
  if (auto value = ir::as_int(condition)) {
    return *value ? scope.universe() : isl::set::empty(scope.space());
  }
  if (auto* node = condition.as<ir::Unary>()) {
    if (node->op != UnaryOp::Not) return std::nullopt;
    auto a = to_set(node->a, scope);
    return a ? std::optional(a->complement()) : std::nullopt;
  }
  auto* node = condition.as<ir::Binary>();
  if (!node) return std::nullopt;
  if (node->op != BinaryOp::Or) return comparison_to_set(*node, scope);
  auto a = to_set(node->a, scope), b = to_set(node->b, scope);
  if (!a || !b) return std::nullopt;
  return a->unite(*b);
}

// For conditions of many cases: `points` of conjunct `number` without the free symbols that no other one mentions,
// before all cases of one are combined with all cases of the others.
isl::set without_own(isl::set points, const std::vector<Expr>& conjuncts, std::size_t number, const Scope& scope,
                     const std::vector<ir::Symbol>& free) {
  bool fewer = false;
  for (const ir::Symbol& symbol : free) {
    std::size_t mentioned = 0;
    for (const Expr& conjunct : conjuncts) mentioned += ir::mentions(conjunct, symbol);
    if (mentioned != 1 || !ir::mentions(conjuncts[number], symbol)) continue;
    const auto place = std::find(scope.iterators.begin(), scope.iterators.end(), symbol);
    points = checked(*scope.context, isl_set_eliminate(points.release(), isl_dim_set,
                                                       static_cast<unsigned>(place - scope.iterators.begin()), 1));
    fewer = true;
  }
  return fewer ? coalesced(points) : points;
}

}  // namespace

std::optional<isl::set> to_set(const Expr& condition, const Scope& scope, const std::vector<ir::Symbol>& free,
                               const std::optional<isl::set>& within) {
  return guarded(*scope.context, [&]() -> std::optional<isl::set> {
    std::vector<Expr> conjuncts;
    split_conjunction(condition, conjuncts);
    LinearConstraints linear(scope);
    std::vector<std::size_t> others;
    for (std::size_t k = 0; k < conjuncts.size(); ++k)
      if (!linear.add(conjuncts[k])) others.push_back(k);
    // What leaves out most cases comes first: the cases of a conjunct are combined with those of all before it.
    std::optional<isl::set> result = within;
    if (!linear.empty()) result = result ? intersection(*result, linear.points()) : linear.points();
    for (const std::size_t k : others) {
      auto points = conjunct_to_set(conjuncts[k], scope);
      if (!points) return std::nullopt;
      if (isl_set_n_basic_set(points->get()) > 1) points = without_own(*points, conjuncts, k, scope, free);
      result = result ? intersection(*result, *points) : *points;
    }
    return result;
  });
}

Expr to_expr(const isl::ast_expr& e, const Names& names, const Context& context) {
  if (e.isa<isl::ast_expr_int>()) return ir::int_const(e.as<isl::ast_expr_int>().val().num_si());
  if (e.isa<isl::ast_expr_id>()) {
    isl::id id = e.as<isl::ast_expr_id>().id();
    auto found = names.find(id.name());
    return found != names.end() ? found->second : ir::var(context.symbol_of(id));
  }
  auto op = e.as<isl::ast_expr_op>();
  auto type = isl_ast_expr_get_op_type(op.get());
  switch (type) {
    case isl_ast_expr_op_minus: return ir::unary(UnaryOp::Neg, to_expr(op.arg(0), names, context));
    case isl_ast_expr_op_cond:
    case isl_ast_expr_op_select:
      return ir::select(as_bool(to_expr(op.arg(0), names, context)), to_expr(op.arg(1), names, context),
                        to_expr(op.arg(2), names, context));
    default: return fold(op, names, context, binary_of(type));
  }
}

Expr to_expr(const isl::pw_aff& value, const std::vector<Expr>& dims, Context& context,
             const std::optional<isl::set>& known) {
  return guarded(context, [&] {
    isl::space domain = isl::manage(isl_pw_aff_get_domain_space(value.get()));
    isl::pw_aff simple = coalesced(known ? value.gist(*known) : value);
    if (isl_space_is_params(domain.get())) return to_expr(expr_of(simple, known, context), {}, context);
    Binder binder(domain, dims, context);
    const isl::pw_aff of_parameters = simple.bind_domain(binder.tuple);
    return to_expr(expr_of(of_parameters, bound(known, binder), context), binder.names, context);
  });
}

std::vector<Expr> to_exprs(const isl::multi_pw_aff& value, const std::vector<Expr>& dims, Context& context,
                           const std::optional<isl::set>& known) {
  return guarded(context, [&] {
    std::vector<Expr> result;
    auto n = static_cast<int>(isl_multi_pw_aff_dim(value.get(), isl_dim_out));
    for (int k = 0; k < n; ++k) result.push_back(to_expr(value.at(k), dims, context, known));
    return result;
  });
}

Expr to_condition(const isl::set& set, const std::vector<Expr>& dims, Context& context,
                  const std::optional<isl::set>& known) {
  return guarded(context, [&] {
    Binder binder(set.space(), dims, context);
    isl::set simple = coalesced(known ? set.gist(*known) : set);
    const isl::set of_parameters = simple.bind(binder.tuple);
    return as_bool(to_expr(expr_of(of_parameters, bound(known, binder), context), binder.names, context));
  });
}

}  // namespace loopgrad::poly
