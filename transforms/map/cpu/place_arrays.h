// Decides for each local array of a program for a CPU what memory it lives in, and where that is reserved.
//
//   for t in 0..steps:                            for t in 0..steps:
//     local f32 next[n]                             local f32 next[n] (call) (out 1)         # reserved before the loop
//     parallel for i in 0..n (threads):             parallel for i in 0..n (threads):
//       local f32 s                           ->      local f32 s                            # a variable
//       local f32 few[3]                              local f32 few[3] (stack)
//       local f32 row[m]                              local f32 row[m] (per thread) (out 2)  # a part for each thread
//       local f32 part[i]                             local f32 part[i] (iteration)
//
// Arrays of constant extents live on the stack as long as they, and those around them, are small. All others are
// reserved as far out as their extents are known, once: each thread of a loop on threads gets a part. Only where the
// extents depend on the iteration of that loop, each iteration asks for memory.
//
// Requires: loops on threads are decided (share_loops). Guarantees: every array has a place, and ir::verify holds.
// Changes nothing else.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program place_arrays(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
