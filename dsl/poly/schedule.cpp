#include "dsl/poly/schedule.h"

#include "dsl/ir/rewriter.h"

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

// The time as further arguments of each instance: isl then says it by the loops that it makes.
isl::map with_time_as_arguments(const Context& context, const isl::map& schedule, const std::string& name) {
  isl_map* map = isl_map_flatten_domain(isl_map_range_map(schedule.copy()));
  return checked(context, isl_map_set_tuple_name(map, isl_dim_in, name.c_str()));
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
    std::map<std::string, std::pair<std::vector<ir::Symbol>, Stmt>> bodies;  // with what their arguments are
    std::int64_t position = 0;
    for (const TimedStatement& timed : statements) {
      const Statement& s = model.statements[static_cast<std::size_t>(timed.statement)];
      std::vector<Expr> time = timed.time;
      if (statements.size() > 1) time.push_back(ir::int_const(position++));
      isl::map own = schedule_of(model, s, time);
      std::vector<ir::Symbol> parameters = s.iterators;
      if (!timed.own.empty()) {
        own = with_time_as_arguments(*model.context, own, s.name);
        parameters.insert(parameters.end(), timed.own.begin(), timed.own.end());
      }
      schedule = schedule.unite(isl::union_map(own));
      bodies[s.name] = {std::move(parameters), timed.body};
    }
    auto user = [&](const std::string& name, const std::vector<Expr>& arguments) {
      const auto& [parameters, body] = bodies.at(name);
      ir::Substitution values;
      for (std::size_t k = 0; k < parameters.size(); ++k) values[parameters[k]] = arguments[k];
      return ir::with_fresh_names(ir::substitute(body, values));
    };
    const isl::ast_build build = ast_builder(model.assumptions, schedule.space());
    return to_stmt(generated(build, schedule), user, names, *model.context);
  });
}

}  // namespace loopgrad::poly
