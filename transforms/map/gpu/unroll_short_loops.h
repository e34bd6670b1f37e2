// Parallel loops of two to four iterations that load the same elements become statements of one thread.
//
//   parallel for t in 0..2:                       parallel for i in 0..n:
//     parallel for i in 0..n:             ->        u[0, i + 1] = u0[i]
//       u[t, i + 1] = u0[i]                         u[1, i + 1] = u0[i]
//
// Each element then comes from memory once. A sequential loop of so few iterations that is innermost in parallel ones
// is unrolled, too, as statements in a row can be rearranged. Requires: parallel loops are marked. Guarantees: every
// element gets the same operations in the same order. Leaves alone: loops along which neighbouring elements lie, which
// threads should share; bodies with loops, local arrays or many statements.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program unroll_short_loops(const ir::Program& program);

}  // namespace loopgrad::transforms
