// What passes ask of programs again and again, each found once in a run of the pipeline. Include from .cpp files only
// (isl is large).
#pragma once

#include "dsl/poly/dataflow.h"
#include "dsl/poly/dependences.h"
#include "dsl/poly/models.h"
#include "transforms/analysis/analysed.h"
#include "transforms/pass/pass.h"

#include <tuple>

namespace loopgrad::transforms {

/// Answers by node, for one run of the pipeline and for one thread: the IR is immutable, so an answer about a part of
/// one program holds for every program that has this part at the same place. Each question has isl's whole budget, and
/// that it was spent is kept like an answer: what passes do does not depend on what was asked before.
class Analyses {
 public:
  using Model = std::shared_ptr<const poly::Model>;

  /// `isl_budget`: operations for each question; 0: the default.
  explicit Analyses(unsigned long isl_budget = 0) : models_(isl_budget) {}

  /// The model of `region`, a part of `program` by identity. Throws poly::BudgetError, here and below.
  Model model_of(const ir::Program& program, const ir::Stmt& region) { return models_.of(program, region); }

  /// See poly::carried_by. They refer to the model, which must be from here.
  const std::vector<poly::Conflict>& carried_by(const Model& model, const ir::Stmt& loop, poly::Search search);
  /// By the loop seen on its own.
  const std::vector<poly::Conflict>& carried_by(const ir::Program& program, const ir::Stmt& loop, poly::Search search) {
    return carried_by(model_of(program, loop), loop, search);
  }

  /// See poly::last_writes, for an access of the model; nothing is known past `budget` operations. Starts the budget
  /// anew, for whatever is asked next.
  const poly::Dataflow& last_writes(const Model& model, int reader, const poly::Access& read, unsigned long budget);

  /// For tests: what has been built.
  const poly::Models& models() const { return models_; }
  std::size_t questions() const { return carried_.size() + last_writes_.size(); }

 private:
  struct Carried {
    ir::Stmt loop;  // kept alive: its address is in the key
    std::vector<poly::Conflict> conflicts = {};
    bool spent = false;
  };

  poly::Models models_;  // first: the conflicts hold isl objects
  std::map<std::tuple<const poly::Model*, const ir::StmtNode*, poly::Search>, Carried> carried_;
  std::map<std::tuple<const poly::Model*, const poly::Access*, unsigned long>, poly::Dataflow> last_writes_;
};

/// Those of this run.
Analyses& analyses(PassContext& context);

}  // namespace loopgrad::transforms
