// Parallel nests one after the other that read the same arrays become one kernel.
//
//   parallel for i, j: v[t, i, j] = f(v[t + 1, ...])           parallel for i, j:
//   parallel for i, j: g[i, j] += v[t + 1, i, j]*h(u)    ->      v[t, i, j] = f(v[t + 1, ...])
//                                                                g[i, j] += v[t + 1, i, j]*h(u)
//
// What both read comes from memory once, and there is one launch less. Requires: parallel loops are marked; the host's
// part of a program and nests of one kernel each. Guarantees: every element gets the same operations in the same order.
// Applies to perfect nests of the same bounds, or of bounds that differ by constants, without loops inside, that share
// an array, when no iteration of one of them changes what another one of the other uses (can_fuse_parallel). Leaves
// alone: nests with large bodies, nests that run best along different loops or in tiles. Wide accesses may be lost,
// which costs less than reading an array twice. The first nest may also be one that sums into one element in loops
// inside, when the second one changes that element.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program fuse_nests(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
