// Takes choices that do not change within an innermost loop out of it.
//
//   for j in 0..m:                                       if t == 0:
//     y[j] = select(t == 0, x0[j], x[t - 1, j])    ->      for j in 0..m: y[j] = x0[j]
//                                                        else:
//                                                          for j in 0..m: y[j] = x[t - 1, j]
//
// Lanes would otherwise load both, and threads would wait for the condition before they load. Guarantees: the same
// operations in the same order. Where several such conditions are asked, one copy of the loop is for all of them, and
// the other one asks. Leaves alone: conditions that read data.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// For a CPU: innermost loops without other branches.
ir::Program unswitch_rows(const ir::Program& program);

/// For a GPU: nests of parallel loops, of which the host then launches one or the other, where the condition decides
/// about loads; nests that ask one such condition. Requires: parallel loops are marked.
ir::Program unswitch_kernels(const ir::Program& program);

}  // namespace loopgrad::transforms
