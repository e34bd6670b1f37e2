// Takes choices that do not change within an innermost loop out of it.
//
//   for j in 0..m:                                       if t == 0:
//     y[j] = select(t == 0, x0[j], x[t - 1, j])    ->      for j in 0..m: y[j] = x0[j]
//                                                        else:
//                                                          for j in 0..m: y[j] = x[t - 1, j]
//
// Lanes would otherwise load both, and threads would wait for the condition before they load. Guarantees: the same
// operations in the same order. Leaves alone: loops that ask more than one such condition, conditions that read data.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// For a CPU: innermost loops without branches.
ir::Program unswitch_rows(const ir::Program& program);

/// For a GPU: nests of parallel loops, of which the host then launches one or the other, where the condition decides
/// about loads. Requires: parallel loops are marked.
ir::Program unswitch_kernels(const ir::Program& program);

}  // namespace loopgrad::transforms
