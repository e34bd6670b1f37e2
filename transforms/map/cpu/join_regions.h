// Lets threads do neighbouring loops in one parallel region, one after the other with a barrier in between.
//
//   parallel for i in 0..n (threads):            parallel for i in 0..n (threads):
//     y[i] = x[n - 1 - i]                          y[i] = x[n - 1 - i]
//   parallel for j in 0..n (threads):      ->    parallel for j in 0..n (joined) (threads):
//     x[j] = y[n - 1 - j]                          x[j] = y[n - 1 - j]
//
// A region costs more than a barrier. Joins loops on threads over the same range, so that equal shares, and the data in
// a thread's cache, stay with the thread. Requires: places of arrays are decided (place_arrays). Leaves alone: ranges
// that data decide, which a loop before may change, and loops whose iterations ask for memory: that can fail, which is
// told after the region.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program join_regions(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
