#include "transforms/analysis/analyses.h"

namespace loopgrad::transforms {

const std::vector<poly::Conflict>& Analyses::carried_by(const Model& model, const ir::Stmt& loop, poly::Search search) {
  const auto [found, is_new] = carried_.try_emplace({model.get(), loop.get(), search}, Carried{loop});
  Carried& carried = found->second;
  if (is_new) {
    try {
      model->context->restart_budget();
      carried.conflicts = poly::carried_by(*model, loop, search);
    } catch (const poly::BudgetError&) {
      carried.spent = true;
      model->context->restart_budget();  // or isl's error would count as one of what comes next
    }
  }
  if (carried.spent) throw poly::BudgetError();
  return carried.conflicts;
}

const poly::Dataflow& Analyses::last_writes(const Model& model, int reader, const poly::Access& read,
                                            unsigned long budget) {
  const auto [found, is_new] = last_writes_.try_emplace({model.get(), &read, budget});
  model->context->restart_budget(budget);
  if (is_new)
    found->second = poly::ask(*model, poly::Dataflow{}, [&] { return poly::last_writes(*model, reader, read); });
  model->context->restart_budget();
  return found->second;
}

Analyses& analyses(PassContext& context) {
  if (!context.analyses) context.analyses = std::make_shared<Analyses>(context.isl_budget);
  return *context.analyses;
}

}  // namespace loopgrad::transforms
