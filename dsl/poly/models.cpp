#include "dsl/poly/models.h"

#include "dsl/poly/pieces.h"

namespace loopgrad::poly {

Models::Models(unsigned long budget)
    : budget_(budget ? budget : Context::default_budget),
      pieces_(std::make_unique<Pieces>(std::make_shared<Context>(budget_))) {}

Models::~Models() = default;

std::shared_ptr<const Model> Models::of(const ir::Program& program, const ir::Stmt& region) {
  const std::shared_ptr<Context>& context = pieces_->context();
  context->restart_budget(budget_);
  Environment& environment = pieces_->environment_of(program);
  const Assumption& assumption = assumption_around(program, region, environment, context);
  const auto [found, is_new] = known_.try_emplace({&environment, &assumption, region.get()}, Entry{region, {}});
  std::shared_ptr<const Model>& model = found->second.model;
  if (is_new) model = std::make_shared<const Model>(build_model(program, region, environment, assumption, context));
  if (!model) throw BudgetError();
  context->restart_budget();
  return model;
}

std::size_t Models::statements() const { return pieces_->statements(); }

}  // namespace loopgrad::poly
