// Fusion of adjacent loops, and its inverse.
//
//   for i in 0..n:                       for i in 0..n:
//     a[i] = f(x[i])                       a[i] = f(x[i])
//   for k in 0..n:           <->           y[i] = a[i]
//     y[k] = a[k]
//
// Legality of fusion: no iteration of the second loop depends on a later iteration of the first. Of fission: no
// statement of the first part depends on an earlier iteration of the second part. Locals that are used on both sides of
// a fission are refused (expand them first). A fused loop loses its parallel mark.
#pragma once

#include "transforms/loops/reorder_loops.h"

namespace loopgrad::transforms {

Scheduled fuse_two_loops(const ir::Program& program, const LoopName& first, const LoopName& second);

/// After the first `after` statements of the body, or with 0 at every place where that is legal. Throws UsageError when
/// there is no such place.
Scheduled split_body(const ir::Program& program, const LoopName& loop, int after);

}  // namespace loopgrad::transforms
