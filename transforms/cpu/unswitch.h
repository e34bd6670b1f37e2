// Takes choices that do not change within an innermost loop out of it.
//
//   for j in 0..m:                                       if t == 0:
//     y[j] = select(t == 0, x0[j], x[t - 1, j])    ->      for j in 0..m: y[j] = x0[j]
//                                                        else:
//                                                          for j in 0..m: y[j] = x[t - 1, j]
//
// Lanes would otherwise load both. Requires: nothing (parallel marks are kept). Guarantees: the same operations in the
// same order. Leaves alone: loops with branches or other choices left in them, more than one such condition, conditions
// that read data.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program unswitch(const ir::Program& program);

}  // namespace loopgrad::transforms
