// Sums in gather form: each element of the target is summed by one iteration of the outermost loop.
//
//   for i in 0..n:                          parallel for c0 in 0..n + k - 1:
//     for j in 0..k:                 ->       for j in max(0, c0 - n + 1)..min(k, c0 + 1):
//       d_x[i + j] += d_y[i]*w[j]               d_x[c0] += d_y[c0 - j]*w[j]
#pragma once

#include "dsl/ir/program.h"
#include "dsl/poly/model.h"
#include "transforms/pass/machine.h"

#include <functional>

namespace loopgrad::transforms {

/// What can be said about the sums of one nest into one target without transforming anything.
struct Separators {
  std::vector<int> dims;  // indices of the target that are affine in all sums and vary, preferred outermost first
  bool follows = false;  // some index depends on the loop whose iterations share the sums, or on data: the target is as
                         // large as the loop, not a weight that all iterations add to
  bool exact_bounds = true;  // all loops around all sums have affine bounds
  bool small = false;        // the dims have a small constant number of elements
};
/// `shared_by` is the loop whose iterations share the sums.
Separators separators_of(const poly::Model& model, const ir::Stmt& shared_by, const std::vector<ir::Stmt>& sums);

/// Rewrites a nest whose leaves are all sums into one target, none of which reads an element that another one changes.
/// Requires separators (`dims` not empty). Returns null when the loops cannot be rebuilt: bounds read from data, and no
/// separator that is itself a loop with bounds fixed outside the nest, nor rows that can change places
/// (gather_entries.h). The order of additions into an element changes;
/// it does not depend on the number of threads. Throws BudgetError.
ir::Stmt gather_sums(const poly::Model& model, const ir::Stmt& nest, const std::vector<ir::Stmt>& sums,
                     const Separators& separators, const Machine& machine);

using ConditionTest = std::function<bool(const ir::Expr&)>;
/// Whether the statement's domain has nothing for which the condition does not hold.
bool is_in_domain(const poly::Model& model, const poly::Statement& statement, const ir::Expr& condition);
/// The sum, a leaf of `nest`, with all conditions around it but those that others have seen to.
ir::Stmt guarded_sum(const ir::Stmt& nest, const ir::Stmt& sum, const ConditionTest& seen_to);

/// Elements per block of a loop that data decide how often runs: two cache lines of f32.
inline constexpr std::int64_t elements_per_block = 32;

}  // namespace loopgrad::transforms
