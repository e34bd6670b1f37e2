// May loops be reordered? The one place that decides it, over the polyhedral dependences. Actions are elsewhere.
#pragma once

#include "dsl/poly/reordering.h"
#include "transforms/analysis/analysed.h"

#include <functional>

namespace loopgrad::transforms {

/// The answer to "may this be done?": yes, or the reason why not.
struct Legality {
  bool ok = true;
  std::string reason = {};  // what is not known; empty where two accesses are in conflict
  std::string hint = {};
  std::string array = {};     // that the reason is about
  std::string sum = {};       // ok: an array into which sums are added in another order, else empty
  SourceLocation where = {};  // line of the first access
  std::shared_ptr<const poly::Model> model = {};
  std::optional<poly::Conflict> conflict = {};  // of the model

  /// The reason: two accesses, their lines and a pair of iterations, or what is not known.
  std::string why() const;

  static Legality refused(std::string reason, std::string hint = {}) {
    Legality result;
    result.ok = false;
    result.reason = std::move(reason);
    result.hint = std::move(hint);
    return result;
  }
};

/// The new time of a statement, see poly::Times.
using TimeOf = std::function<std::optional<std::vector<ir::Expr>>(const poly::Statement&)>;

/// Whether the statements of `region`, a part of the program's body, may run at new times. Refuses what isl cannot
/// express and what exceeds its budget.
Legality can_reorder(const Analysed& program, const ir::Stmt& region, const TimeOf& time);

/// Whether iterations of a loop may run in any order or at once. Sums count as conflicts, and so does what an iteration
/// changes that the bounds read: each thread asks these for itself.
Legality can_run_in_parallel(const Analysed& program, const ir::Stmt& loop);

/// A value that rises from iteration to iteration of a For: its iterator, or minus that.
ir::Expr rising(const ir::For& loop);

/// The iterator's distance from the first iteration, divided by `factor`: the number of the block that an iteration is
/// in.
ir::Expr block_number(const ir::For& loop, std::int64_t factor);

/// Bounds that can be evaluated at another place: they read no data and divide by constants only.
bool bounds_are_plain(const ir::For& loop);

/// Whether these have the same values wherever they are evaluated in `region`: they read nothing that it writes.
Legality stays(const ir::Program& program, const std::vector<ir::Expr>& values, const ir::Stmt& region);

/// Whether the bounds of a loop have the same values wherever they are evaluated within the loop and right after it:
/// they read nothing that the loop writes.
Legality bounds_stay(const ir::Program& program, const ir::Stmt& loop);

/// Throws TransformError "cannot <action>: <reason>" unless it is legal.
void require(const Legality& legality, const ir::Program& program, const ir::Stmt& loop, const std::string& action);

}  // namespace loopgrad::transforms
