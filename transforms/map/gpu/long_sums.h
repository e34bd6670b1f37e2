// A long sum by many blocks.
//
//   for i in 0..n: s += f(i)     ->     grid for b in 0..blocks: partial[b] = the sum of its threads
//                                       grid for b in 0..1: s += the sum over partial
//
// Guarantees: an order of terms that depends on the sizes only.
#pragma once

#include "transforms/map/gpu/shared_sums.h"

namespace loopgrad::transforms {

/// The two kernels. Requires: `sums` are `shared_sums` of the loop. `threads`: of each block.
ir::Stmt long_sum(const ir::For& loop, const std::vector<SharedSum>& sums, std::int64_t threads);

}  // namespace loopgrad::transforms
