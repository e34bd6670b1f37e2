#include "transforms/loops/legality.h"

#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"

#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr const char* sums_hint = "leave a shared sum to the summation plan, or sum into separate elements";

const poly::Access* access_of(const poly::Conflict& conflict) { return conflict.a ? conflict.a : conflict.b; }

// What is needed besides the reason: the array, the line and how to get on.
Legality refused(const std::shared_ptr<const poly::Model>& model, const poly::Conflict& conflict) {
  Legality result = Legality::refused({});
  result.model = model;
  result.conflict = conflict;
  result.where = model->statements[static_cast<std::size_t>(conflict.first)].stmt->location;
  const poly::Access* access = access_of(conflict);
  if (!access) return result;
  result.array = access->array->name;
  bool inexact = !conflict.a->exact || !conflict.b->exact;
  if (conflict.sum) result.hint = sums_hint;
  else if (inexact) result.hint = "indices read from data may be equal: state what is known of them (injective, csr)";
  else result.hint = "leave the step out, or give each iteration elements of its own";
  return result;
}

Legality over_budget(const poly::BudgetError& e) { return Legality::refused(e.info().message, e.info().hint); }

}  // namespace

std::string Legality::why() const {
  if (!conflict) return reason;
  try {
    model->context->restart_budget();
    return poly::describe_pair(*model, *conflict);
  } catch (const poly::BudgetError& e) {
    return e.info().message;
  }
}

Legality can_reorder(const Analysed& program, const Stmt& region, const TimeOf& time) {
  try {
    const Analyses::Model model = program.analyses.model_of(program, region);
    poly::Times times;
    for (const poly::Statement& s : model->statements) {
      times.push_back(time(s));
      if (!times.back()) continue;
      for (const Expr& value : *times.back()) {
        if (!poly::is_time(*model, value)) return Legality::refused("the bounds are not affine");
      }
    }
    model->context->restart_budget();
    if (auto conflict = poly::exchanged_by(*model, times)) return refused(model, *conflict);
    Legality result;
    model->context->restart_budget();
    auto sum = poly::exchanged_by(*model, times, poly::Exchanged::Sums);
    if (sum) result.sum = sum->a->array->name;
    return result;
  } catch (const poly::BudgetError& e) {
    return over_budget(e);
  }
}

Legality can_run_in_parallel(const Analysed& program, const Stmt& loop) {
  if (Legality stay = bounds_stay(program.program, loop); !stay.ok) return stay;
  try {
    const Analyses::Model model = program.analyses.model_of(program, loop);
    const auto& conflicts = program.analyses.carried_by(model, loop, poly::Search::UntilAny);
    return conflicts.empty() ? Legality{} : refused(model, conflicts.back());
  } catch (const poly::BudgetError& e) {
    return over_budget(e);
  }
}

Expr rising(const ir::For& loop) {
  Expr iterator = ir::var(loop.iterator);
  return loop.mode == ir::LoopMode::Backward ? -iterator : iterator;
}

Expr block_number(const ir::For& loop, std::int64_t factor) {
  Expr iterator = ir::var(loop.iterator);
  Expr distance =
      loop.mode == ir::LoopMode::Backward ? loop.upper - ir::int_const(1) - iterator : iterator - loop.lower;
  return ir::binary(ir::BinaryOp::FloorDiv, simplify_indices(distance), ir::int_const(factor));
}

bool bounds_are_plain(const ir::For& loop) {
  bool plain = true;
  for (const Expr& bound : {loop.lower, loop.upper}) {
    ir::walk(bound, [&](const Expr& e) {
      if (e.kind() == ir::Kind::Load) plain = false;
      auto* node = e.as<ir::Binary>();
      bool divides = node && (node->op == ir::BinaryOp::FloorDiv || node->op == ir::BinaryOp::Mod);
      if (divides && !ir::as_int(node->b)) plain = false;
    });
  }
  return plain;
}

Legality stays(const ir::Program& program, const std::vector<Expr>& values, const Stmt& region) {
  auto may_alias = [&](const ir::Array& a, const ir::Array& b) {
    return std::any_of(program.facts.begin(), program.facts.end(), [&](const ir::Fact& fact) {
      return fact.kind == ir::FactKind::MayAlias &&
             ((fact.array == a && fact.other == b) || (fact.array == b && fact.other == a));
    });
  };
  Legality result;
  for (const Expr& value : values) {
    ir::walk(value, [&](const Expr& e) {
      auto* load = e.as<ir::Load>();
      if (!load) return;
      for (const Stmt& leaf : leaves(region)) {
        for_each_store(leaf, [&](const ir::Array& stored, const std::vector<Expr>&) {
          if (!result.ok || (stored != load->array && !may_alias(stored, load->array))) return;
          result = Legality::refused("the loop changes '" + load->array->name + "', from which its bounds are read");
          result.array = load->array->name;
          result.where = leaf->location;
        });
      }
    });
  }
  return result;
}

Legality bounds_stay(const ir::Program& program, const Stmt& loop) {
  const ir::For& node = *loop.as<ir::For>();
  return stays(program, {node.lower, node.upper}, node.body);
}

void require(const Legality& legality, const ir::Program& program, const Stmt& loop, const std::string& action) {
  if (legality.ok) return;
  const ir::For* node = loop.as<ir::For>();
  throw TransformError({.code = ErrorCode::IllegalTransform,
                        .message = "cannot " + action + ": " + legality.why(),
                        .program = program.name,
                        .loop = node ? node->iterator.name : "",
                        .array = legality.array,
                        .hint = legality.hint,
                        .location = legality.where.known() ? legality.where : loop->location});
}

}  // namespace loopgrad::transforms
