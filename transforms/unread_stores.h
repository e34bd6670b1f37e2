// Values that nobody reads are not stored in local arrays.
//
//   seed = d_u[t + 1, i, j]                    seed = d_u[t + 1, i, j]
//   d_u[t + 1, i, j] = 0                ->     d_u[t, i, j] += 2*seed
//   d_u[t, i, j] += 2*seed
//
// Adjoints are full of this: each overwritten element gets its adjoint cleared, and what is cleared last is not read
// again. Removing it early lets later passes see that `seed` is a copy of an element that stays the same. Requires:
// nothing. Guarantees: the same results. An assignment goes when its array is local and never read, or when it stores a
// constant and no read of the (local) array may touch one of its elements later. Past isl's budget it stays.
#pragma once

#include "transforms/pass.h"

namespace loopgrad::transforms {

ir::Program drop_unread_stores(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
