// Storage of locals: one element for each iteration, and back.
//
//   for i in 0..n:                      local f32 s_all[n]
//     local f32 s                       for i in 0..n:
//     s = ...                 <->         s_all[i] = ...
//     y[i] = s                            y[i] = s_all[i]
#pragma once

#include "transforms/loops/reorder_loops.h"

namespace loopgrad::transforms {

/// Left to right: storage for all iterations of the loops from `loop` to the local. Always legal; refused where the
/// number of iterations is not known before the loop.
Scheduled expand_local(const Analysed& program, const std::string& local, const LoopName& loop);

/// Right to left: requires that one loop right below the Allocate has all uses, and that they agree in one dimension
/// whose index is the loop's iterator plus a constant.
Scheduled contract_local(const Analysed& program, const std::string& local);

}  // namespace loopgrad::transforms
