// The last step of a recurrence and the nest after it become one kernel.
//
//   for t in 1..T + 1 reversed:                     if 1 < T + 1:
//     parallel for i: v[t%2, i] = f(v[(t + 1)%2])     for t in 2..T + 1 reversed: parallel for i: ...
//   parallel for i: y[i] = v[0, i] + v[1, i]    ->    parallel for i: v[1, i] = f(v[0]); y[i] = v[0, i] + v[1, i]
//                                                   else: parallel for i: y[i] = v[0, i] + v[1, i]
//
// What both read comes from memory once, and what the last step stores for the nest alone is kept in a register by
// `keep_last_elements` after this. Requires: parallel loops are marked. Guarantees: every element gets the same
// operations in the same order. Applies to loops of the host, of known bounds, over one nest that `fuse_nests` fuses in
// its last iteration with the nest after the loop. Leaves alone: steps of several nests, whose text would double.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program peel_last_steps(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
