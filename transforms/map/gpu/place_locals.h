// Decides for each local array of a mapped program who shares it, and which sums all threads of a block do together.
//
//   grid for r in 0..rows:                      grid for r in 0..rows:
//     local f32 row[64, 8]                        local f32 row[64, 8] (thread)   # thread t uses row[t, ..] only
//     local f32 tile[64]                 ->       local f32 tile[64] (block)
//     local f32 sum                               local f32 sum (thread)         # each keeps a copy
//     sum = 0                                     sum = 0
//     threads for t in 0..64:                     threads for t in 0..64:
//       local f32 part                              local f32 part (thread)
//       ..                                          ..
//       sum += (atomic) part                        sum += (block) part
//
// Outside of kernels the place is the grid, inside of loops over threads the thread. What is declared between them is
// the block's, but for two kinds that then need neither shared memory nor barriers:
//   - scalars that no thread sets by itself: all threads compute them alike, and what they sum into one at the same
//     time is combined in a tree of all threads;
//   - arrays that only single loops over the threads touch, at the thread's number, and whose other extents are small
//     constants: they live in registers where the loops over them are unrolled.
// A sum into what is a thread's own is none that others share: it is not atomic, which memory of a thread cannot be.
// In a program without kernels, which one thread executes, all locals are its own.
//
// Guarantees: every local has a place, and ir::verify holds. Changes nothing else.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// Whether there are loops over blocks; else the program is one kernel of one thread.
bool has_kernels(const ir::Program& program);

ir::Program place_locals(const ir::Program& program);

}  // namespace loopgrad::transforms
