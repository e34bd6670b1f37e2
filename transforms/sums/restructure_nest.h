// One nest by the plan for its sums (plan_sums.h): parts with nests of their own, and what stays.
#pragma once

#include "transforms/analysis/nest.h"
#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

/// Sums that iterations of a nest's outermost loop share: groups of Reduces, in textual order, such that different
/// groups never touch the same element.
using SharedSums = std::vector<std::vector<ir::Stmt>>;

using SumPair = std::pair<const ir::StmtNode*, const ir::StmtNode*>;

/// What is to be done with a nest.
struct NestRequest {
  SharedSums shared;                // all that iterations of the loop `shared_by` have in common
  ir::Stmt shared_by;               // the nest's outermost loop, or a loop in it
  bool all_or_none = false;         // the shared sums have to be gathered, all of them: otherwise leave the nest alone
  std::set<SumPair> meetings = {};  // of sums: two iterations of that loop add to one element; a sum may meet itself
  bool in_block = false;            // the threads of a block do the nest together: what can be gathered at once is
};

/// What has become of a nest.
struct RestructuredNest {
  ir::Stmt nest;  // the same one when there is nothing to do
  /// Nests in it, with a loop outermost, that were parts of the old one and have lost all the sums that iterations of
  /// that loop shared: sums that its inner loops share are still as they were.
  std::vector<ir::Stmt> freed = {};
};

/// Rewrites `nest`, a For of `program`, and adds the plans of sums that it moves to the context. Besides the shared
/// sums, others are gathered where that gives more parallel loops or better access to memory, and needs no array for
/// locals. Leaves a remark when isl's budget is the reason why there is nothing to do.
RestructuredNest restructure_nest(const ir::Program& program, const ir::Stmt& nest, const NestRequest& request,
                                  PassContext& context);

}  // namespace loopgrad::transforms
