// What passes ask of programs again and again, each found once in a run of the pipeline. Include from .cpp files only
// (isl is large).
#pragma once

#include "dsl/poly/dependences.h"
#include "dsl/poly/models.h"
#include "transforms/pass.h"

namespace loopgrad::transforms {

/// Answers by node, for one run of the pipeline and by one thread: the IR is immutable, so an answer about a part of one
/// program holds for every program that has this part at the same place. That isl's budget was spent is kept like an
/// answer, so that what passes do never depends on what was asked before.
class Analyses {
 public:
  /// `isl_budget`: operations for each question; 0: the default.
  explicit Analyses(unsigned long isl_budget = 0) : models_(isl_budget) {}

  /// The model of a region. Throws poly::BudgetError. The budget starts anew.
  std::shared_ptr<const poly::Model> model_of(const ir::Program& program, const ir::Stmt& region) {
    return models_.of(program, region);
  }

  const poly::Models& models() const { return models_; }

 private:
  poly::Models models_;
};

/// Those of this run.
inline Analyses& analyses(PassContext& context) {
  if (!context.analyses) context.analyses = std::make_shared<Analyses>(context.isl_budget);
  return *context.analyses;
}

}  // namespace loopgrad::transforms
