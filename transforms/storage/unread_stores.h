// Values that nobody reads are not stored in local arrays.
//
//   seed = d_u[t + 1, i, j]                    seed = d_u[t + 1, i, j]
//   d_u[t + 1, i, j] = 0                ->     d_u[t, i, j] += 2*seed
//   d_u[t, i, j] += 2*seed
//
// Adjoints are full of this: each overwritten element gets its adjoint cleared, and what is cleared last is not read
// again; adjoints of a border that stays constant are summed up and never read. Removing it early lets later passes see
// that `seed` is a copy of an element that stays the same, and that loops need no cases for the border. Requires:
// nothing. Guarantees: the same results. Of a local array
//   - all assignments go when it is never read (all three),
//   - a constant that is assigned goes when no read finds it, by array dataflow (drop_unread_stores, drop_unread_sums),
//   - stores to elements that are never read, other than to add to them, get a condition or go (drop_unread_elements;
//     drop_unread_sums does so for sums alone: restructured, they may add to more elements than they did as written).
//     A scalar's condition has to leave out one side of its iterations: others save little, and keep loops from lanes.
// Past isl's budget a store stays as it is.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program drop_unread_sums(const ir::Program& program, PassContext& context);
ir::Program drop_unread_elements(const ir::Program& program, PassContext& context);
ir::Program drop_unread_stores(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
