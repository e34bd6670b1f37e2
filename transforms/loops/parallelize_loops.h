// Finds loops whose iterations may run in any order, and marks them.
//
//   for i in 0..n:                      parallel for i in 0..n:
//     y[i] = 0                  ->        y[i] = 0
//     for j in 0..k:                      for j in 0..k:
//       y[i] += x[i + j]*w[j]               y[i] += x[i + j]*w[j]
//
// Requires: nothing. Guarantees: a loop is marked only when no two of its iterations touch one element with at least
// one of them changing it (locals allocated in its body are private to an iteration); loops marked before stay marked.
// With atomics allowed, a loop whose only conflicts are sums is marked as well, unless it lies in a parallel one, and
// the Reduces concerned become atomic. Whiles and loops around Push or Pop are never marked. The order within a loop
// that is not marked does not change. Every loop gets a LoopDecision, with a concrete pair of iterations where it stays
// sequential. Past isl's budget a loop stays as it is, with a remark. Cost: per loop, the square of the number of
// accesses to one array.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program parallelize_loops(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
