#include "dsl/poly/schedule.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/poly/coalesced.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>

namespace loopgrad::poly {

using ir::Expr;
using ir::Stmt;

namespace {

// statement instance -> time, on the statement's domain.
isl::map schedule_of(const Model& model, const Statement& s, const std::vector<Expr>& time) {
  Scope scope{model.context, s.iterators, ""};
  Expr all = ir::bool_const(true);
  for (const Expr& value : time) {
    scope.iterators.push_back(ir::make_symbol("t"));
    Expr equal = ir::binary(ir::BinaryOp::Eq, ir::var(scope.iterators.back()), value);
    all = ir::binary(ir::BinaryOp::And, all, equal);
  }
  auto points = to_set(all, scope);
  if (!points) throw InternalError("a schedule is not affine");
  isl_map* map = isl_map_from_range(points->release());
  map = isl_map_move_dims(map, isl_dim_in, 0, isl_dim_out, 0, static_cast<unsigned>(s.iterators.size()));
  map = isl_map_set_tuple_name(map, isl_dim_in, s.name.c_str());
  return checked(*model.context, map).intersect_domain(s.domain);
}

/// How hard it is to see which element an index means.
struct Complexity {
  int cases = 0;  // and quotients: each hides it from all that follows
  int parts = 0;
};

Complexity complexity_of(const Expr& e) {
  using enum ir::BinaryOp;
  Complexity result;
  ir::walk(e, [&](const Expr& part) {
    ++result.parts;
    if (auto* node = part.as<ir::Unary>()) result.cases += node->op == ir::UnaryOp::Abs;
    result.cases += part.kind() == ir::Kind::Select;
    const auto* node = part.as<ir::Binary>();
    if (node) result.cases += node->op == Min || node->op == Max || node->op == FloorDiv || node->op == Mod;
  });
  return result;
}

// What isl has found out may be a list of cases, each with its conditions.
bool is_simpler(const Expr& a, const Expr& b) {
  const Complexity x = complexity_of(a), y = complexity_of(b);
  return x.cases < y.cases && x.parts <= y.parts;
}

/// An index of a body that has cases. Loops over elements know it as a number of theirs, and of each piece of the
/// domain isl knows which case holds.
struct CaseIndex {
  Expr written;
  ir::Symbol own;                   // stands for it in the body
  isl::pw_aff value;                // in terms of the statement's iterators
  std::optional<std::size_t> time;  // the entry of the time that is the same
};

/// The code of a statement, which takes its iterators and, where isl can say them, its indices with cases.
class Body {
 public:
  Body(const Model& model, const TimedStatement& timed)
      : statement_(model.statements[static_cast<std::size_t>(timed.statement)]), context_(*model.context) {
    const Scope scope{model.context, statement_.iterators, statement_.name};
    body_ = ir::move_elements(timed.body, [&](const ir::Array& array, std::vector<Expr> indices) {
      bool found = false;
      for (Expr& index : indices) {
        const auto own = named(index, timed.time, scope);
        if (own) index = ir::var(*own);
        found = found || own;
      }
      return found ? std::optional(ir::ElementPlace{array, std::move(indices)}) : std::nullopt;
    });
  }

  const std::vector<CaseIndex>& indices() const { return indices_; }
  bool names_elements() const {
    return std::any_of(indices_.begin(), indices_.end(), [](const CaseIndex& index) { return index.time.has_value(); });
  }

  /// The call of one instance with its indices as further arguments.
  isl::ast_node with_indices(const isl::ast_node& call, const isl::ast_build& build) const {
    if (indices_.empty()) return call;
    const auto instance = checked(context_, isl_map_from_union_map(build.schedule().reverse().release()));
    if (!instance.is_single_valued()) return call;
    const auto of_time = checked(context_, isl_pw_multi_aff_from_map(instance.copy()));
    const auto from = call.as<isl::ast_node_user>().expr().as<isl::ast_expr_op>();
    std::vector<isl::ast_expr> arguments;
    for (std::size_t k = 0; k < statement_.iterators.size(); ++k)
      arguments.push_back(from.arg(static_cast<int>(k) + 1));
    for (const CaseIndex& index : indices_) arguments.push_back(build.expr_from(index.value.pullback(of_time)));
    isl_ast_expr_list* list = isl_ast_expr_list_alloc(context_.isl().get(), static_cast<int>(arguments.size()));
    for (const isl::ast_expr& e : arguments) list = isl_ast_expr_list_add(list, e.copy());
    return checked(context_, isl_ast_node_alloc_user(isl_ast_expr_call(from.arg(0).release(), list)));
  }

  /// The code of that call, see UserCode.
  Stmt called(const std::vector<Expr>& arguments, const std::vector<Expr>& loops) const {
    ir::Substitution values;
    const std::size_t count = statement_.iterators.size();
    for (std::size_t k = 0; k < count; ++k) values[statement_.iterators[k]] = arguments[k];
    ir::Substitution all = values;
    for (std::size_t k = 0; k < indices_.size(); ++k) {
      Expr& value = all[indices_[k].own] = ir::substitute(indices_[k].written, values);
      if (count + k < arguments.size() && is_simpler(arguments[count + k], value)) value = arguments[count + k];
      // In all pieces by the same name, also where its value is known.
      if (const auto time = indices_[k].time; time && *time < loops.size() && loops[*time]) value = loops[*time];
    }
    return ir::with_fresh_names(ir::substitute(body_, all));
  }

 private:
  std::optional<ir::Symbol> named(const Expr& index, const std::vector<Expr>& time, const Scope& scope) {
    if (complexity_of(index).cases == 0) return std::nullopt;
    for (const CaseIndex& known : indices_)
      if (ir::equal(known.written, index)) return known.own;
    const auto value = ir::has_load(index) ? std::nullopt : to_pw_aff(index, scope);
    if (!value) return std::nullopt;
    CaseIndex added{index, ir::make_symbol("t"), coalesced(*value), {}};
    const Expr simple = ir::simplify_indices(index);
    for (std::size_t k = 0; k < time.size() && !added.time; ++k)
      if (ir::equal(ir::simplify_indices(time[k]), simple)) added.time = k;
    indices_.push_back(std::move(added));
    return indices_.back().own;
  }

  const Statement& statement_;
  const Context& context_;
  Stmt body_;
  std::vector<CaseIndex> indices_;
};

// isl (0.25) confuses parameters whose order differs: see ast_builder.
isl::union_map with_parameters_of(const isl::pw_aff& value, const isl::union_map& schedule) {
  isl_union_map* const map =
      isl_union_map_align_params(schedule.copy(), isl_space_params(isl_pw_aff_get_space(value.get())));
  if (!map) isl::exception::throw_last_error(schedule.ctx());
  return isl::manage(map);
}

// isl makes existentials on its way that it cannot express, and then fails at its own sets; that is as if it took too
// long, for which whoever asks has another way.
isl::ast_node generated(const isl::ast_build& build, const isl::union_map& schedule) {
  try {
    return build.node_from_schedule_map(schedule);
  } catch (const isl::exception_invalid&) {
    throw BudgetError();
  }
}

}  // namespace

Stmt code_in_order(const Model& model, const std::vector<TimedStatement>& statements,
                   const std::vector<std::string>& names) {
  return guarded(*model.context, [&] {
    isl::union_map schedule = isl::union_map::empty(model.context->isl());
    std::map<std::string, Body> bodies;
    std::int64_t position = 0;
    for (const TimedStatement& timed : statements) {
      const Statement& s = model.statements[static_cast<std::size_t>(timed.statement)];
      std::vector<Expr> time = timed.time;
      if (statements.size() > 1) time.push_back(ir::int_const(position++));
      schedule = schedule.unite(isl::union_map(schedule_of(model, s, time)));
      const Body& body = bodies.emplace(s.name, Body(model, timed)).first->second;
      for (const CaseIndex& index : body.indices()) schedule = with_parameters_of(index.value, schedule);
    }
    const auto user = [&](const std::string& name, const std::vector<Expr>& arguments, const std::vector<Expr>& loops) {
      return bodies.at(name).called(arguments, loops);
    };
    const auto with_indices = [&](const isl::ast_node& call, const isl::ast_build& build) {
      const auto op = call.as<isl::ast_node_user>().expr().as<isl::ast_expr_op>();
      return bodies.at(op.arg(0).as<isl::ast_expr_id>().id().name()).with_indices(call, build);
    };
    // Where a loop is to be the index that it counts, isl must not count multiples of the step.
    const bool names_elements =
        std::any_of(bodies.begin(), bodies.end(), [](const auto& body) { return body.second.names_elements(); });
    isl_options_set_ast_build_scale_strides(model.context->isl().get(), names_elements ? 0 : 1);
    const isl::ast_build build = ast_builder(model.assumptions, schedule.space()).set_at_each_domain(with_indices);
    return to_stmt(generated(build, schedule), user, names, *model.context);
  });
}

}  // namespace loopgrad::poly
