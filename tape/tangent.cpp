// Forward mode: every store is preceded by the store of its tangent.
#include "tape/directions.h"
#include "tape/gradient_program.h"

#include "dsl/frontend/out_of_memory.h"
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"

#include <loopgrad/autodiff.h>

namespace loopgrad {
namespace {

using ir::Array;
using ir::Expr;
using ir::Stmt;

class TangentRewriter final : public ir::Rewriter {
 public:
  explicit TangentRewriter(tape::ArrayMap tangents) : tangents_(std::move(tangents)) {}
  using Rewriter::rewrite;

  Stmt rewrite(const Stmt& s) override {
    if (const auto* a = s.as<ir::Assign>(); a && tangents_.count(a->array)) {
      const Array& t = tangents_.at(a->array);
      Expr value = tangent_of(a->value);
      if (!value) value = ir::const_of(0, t->type);
      return ir::block({ir::assign(t, a->indices, value, a->location), s});
    }
    if (const auto* r = s.as<ir::Reduce>(); r && tangents_.count(r->array)) {
      const Expr value = tangent_of(r->value);
      if (!value) return s;
      std::vector<Stmt> sums;
      // What reads its own target reads the tangent of that as it was before the statement.
      const bool reads_target = ir::reads(s, r->array);
      for (const Expr& term : reads_target ? std::vector{value} : terms_of(r->value, value))
        sums.push_back(ir::reduce(tangents_.at(r->array), r->indices, r->op, term, r->location));
      sums.push_back(s);
      return ir::block(std::move(sums));
    }
    if (const auto* region = s.as<ir::CustomGradient>())
      return tape::in_derivatives(region->tangent, *region, tangents_);
    if (const auto* l = s.as<ir::Allocate>(); l && tangents_.count(l->array))
      return ir::allocate(tangents_.at(l->array), rewrite_children(s), l->location);
    return rewrite_children(s);
  }

 private:
  Expr tangent_of(const Expr& value) const {
    return tape::push_forward(value, [this](const ir::Load& load) {
      const auto it = tangents_.find(load.array);
      return it == tangents_.end() ? Expr{} : ir::load(it->second, load.indices, load.location);
    });
  }

  /// A sum of products of two elements has two of them as its tangent, each of which may be a product of matrices.
  static std::vector<Expr> terms_of(const Expr& value, const Expr& tangent) {
    const auto* product = value.as<ir::Binary>();
    const auto* both = tangent.as<ir::Binary>();
    const auto is_element = [](const Expr& e) { return e.kind() == ir::Kind::Load; };
    const bool split = product && both && product->op == ir::BinaryOp::Mul && both->op == ir::BinaryOp::Add &&
                       is_element(product->a) && is_element(product->b);
    return split ? std::vector{both->a, both->b} : std::vector{tangent};
  }

  tape::ArrayMap tangents_;
};

}  // namespace

ir::Program tape::tangent_along(const ir::Program& program, const GradientOptions& options, const Expr& count) {
  const tape::Prepared prepared = tape::prepare(program, options, RuleMode::Tangent);
  if (count)
    refuse_rules(prepared.program, "the tangent of a custom gradient takes one direction at a time",
                 "leave out `directions`, or the tangent: then forward mode is that of the region itself");
  ir::Program result = prepared.program;
  result.name += "_tangent";
  result.from_rule = location_of_rule(prepared.program);
  const auto derivative = [&](const Array& array, const std::string& name, ScalarType type, ir::ArrayRole role) {
    return count ? tape::array_of_directions(array, name, type, role, count)
                 : ir::make_array_like(array, name, type, role);
  };

  tape::ArrayMap tangents;
  std::vector<Stmt> prologue;
  std::vector<Array> locals;
  for (const Array& array : prepared.program.arrays) {
    const bool wanted = prepared.request.wants(array), given = prepared.request.given(array);
    const bool active = prepared.activity.active(array);
    if (!wanted && !given && !active) continue;
    const ir::ArrayRole role = wanted && given ? ir::ArrayRole::InOut
                               : wanted        ? ir::ArrayRole::Input
                               : given         ? ir::ArrayRole::Output
                                               : ir::ArrayRole::Local;
    // A wanted in-out that is not an output of interest is written by the program but only read by the caller.
    const bool copied = role == ir::ArrayRole::Input && array->role == ir::ArrayRole::InOut && active;
    const Array t = derivative(array, "t_" + array->name, value_type(array->type), role);
    if (role != ir::ArrayRole::Local) result.arrays.push_back(t);
    Array used = t;
    if (copied) {
      used = ir::make_array("t_" + array->name + "_now", t->type, t->shape, ir::ArrayRole::Local, t->location);
      prologue.push_back(tape::copy_all(used, t));
    }
    if (used->role == ir::ArrayRole::Local) locals.push_back(used);
    if (active) tangents[array] = used;
    const bool starts_at_zero = !wanted && array->role == ir::ArrayRole::InOut;
    if (starts_at_zero || (given && !wanted && !active)) prologue.push_back(tape::zero_fill(used));
  }
  for (const auto& [array, adjoint] : prepared.adjoints) {
    if (tangents.count(array)) continue;
    tangents[array] = derivative(array, "t_" + array->name, adjoint->type, ir::ArrayRole::Local);
  }
  const Stmt body = tape::expand_reductions(prepared.program.body, {ir::ReduceOp::Min, ir::ReduceOp::Max},
                                            [&](const Array& a) { return tangents.count(a) != 0; });
  prologue.push_back(count ? tape::along_directions(body, {count, std::move(tangents), true})
                           : TangentRewriter(std::move(tangents)).rewrite(body));
  result.body = ir::block(std::move(prologue));
  tape::refuse_equal_names(result);
  for (const Array& local : locals) result.body = ir::allocate(local, result.body, local->location);
  return result;
}

Program tangent(const Program& program, const GradientOptions& options) {
  return reporting_memory(program.name(), [&] {
    ir::Program sized = program.ir();
    const Expr count = options.directions.empty() ? Expr{} : tape::count_directions(sized, options.directions);
    return Program(std::make_shared<const ir::Program>(tape::tangent_along(sized, options, count)));
  });
}

}  // namespace loopgrad
