// The choice of a strategy for each group of sums of a nest.
//
// A strategy is suggested by the shape of the sums: the first of `sum_strategies` without obstacle or doubt. Another
// one takes the sums where it claims them, or where it is estimated to be faster by a margin, since estimates are
// rough.
#pragma once

#include "transforms/sums/sum_groups.h"

namespace loopgrad::transforms {

/// Decides about all groups of the nest: strategy, why, candidates. Changes the nest as far as sums take in locals, and
/// its groups where sums that data scatter, or that meet each other only, are better off each by itself. Throws
/// BudgetError.
void plan_sums(SumNest& nest);

}  // namespace loopgrad::transforms
