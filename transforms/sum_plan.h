// The plan for one nest: which sums are gathered, which become trees, and the code for it.
#pragma once

#include "transforms/nest.h"
#include "transforms/pass.h"

namespace loopgrad::transforms {

/// Sums that iterations of a nest's outermost loop share: groups of Reduces, in textual order, such that different
/// groups never touch the same element.
using SharedSums = std::vector<std::vector<ir::Stmt>>;

/// Rewrites `nest`, a For of `program` that carries nothing but the given sums, and reports a decision for each.
/// Returns `nest` itself when nothing can be done, with a remark when isl's budget is the reason.
ir::Stmt restructure_nest(const ir::Program& program, const ir::Stmt& nest, const SharedSums& shared,
                          PassContext& context);

}  // namespace loopgrad::transforms
