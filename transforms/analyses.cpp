#include "transforms/analyses.h"

namespace loopgrad::transforms {

const std::vector<poly::Conflict>& Analyses::carried_by(const Model& model, const ir::Stmt& loop,
                                                        poly::Search search) {
  const auto [found, is_new] = carried_.try_emplace({model.get(), loop.get(), search}, Carried{loop});
  Carried& carried = found->second;
  if (is_new) {
    try {
      model->context->restart_budget();
      carried.conflicts = poly::carried_by(*model, loop, search);
    } catch (const poly::BudgetError&) {
      carried.spent = true;
    }
  }
  if (carried.spent) throw poly::BudgetError();
  return carried.conflicts;
}

Analyses& analyses(PassContext& context) {
  if (!context.analyses) context.analyses = std::make_shared<Analyses>(context.isl_budget);
  return *context.analyses;
}

}  // namespace loopgrad::transforms
