// What is stored to an element and then read in loops is kept in a scalar, and stored after them.
//
//   seed = d[i, j]                             d_now = d[i, j]
//   d[i, j] = seed/a[j]                        seed = d_now
//   parallel for k in 0..j:                    d_now = seed/a[j]
//     d[i, k] -= d[i, j]*a[k]           ->     parallel for k in 0..j:
//                                                d[i, k] -= d_now*a[k]
//                                              d[i, j] = d_now
//
// One thread of a block would assign, and all others wait until they can read; now each computes the scalar for itself.
// Loops that the element kept from wide accesses have them.
//
// Requires: parallel loops are marked; looks at bodies of the host's parallel nests. Guarantees: every element gets the
// same operations in the same order. What a scalar takes no place of: elements_in_scalars.h; and what loops store to.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program forward_elements(const ir::Program& program);

}  // namespace loopgrad::transforms
