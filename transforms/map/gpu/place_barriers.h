// Decides where the threads of a block wait for each other.
//
//   grid for r in 0..rows (block of 64, at most 64):    grid for r in 0..rows (block of 64, at most 64) (barriers):
//     local f32 tile[64] (block)                          local f32 tile[64] (block):
//     threads for t in 0..64:                               threads for t in 0..64:
//       tile[t] = x[r, t]                            ->       tile[t] = x[r, t]
//                                                           barrier
//     threads for t in 0..64:                               threads for t in 0..64:
//       y[r, t] = tile[63 - t]                                y[r, t] = tile[63 - t]
//                                                         barrier
//
// A barrier stands before a statement that touches what other threads have touched since the last one: elements of the
// same array, one of them written, unless an index keeps them apart whatever the threads (d[i, j] and d[i, k] with k in
// 0..j). One stands also before control flow that threads take together, where something has been written; at the end
// of a body that they may enter again, or leave, where what was read before it counts on, as it may not run; and at the
// end of a block that uses its shared memory again.
//
// Requires: locals have homes (place_locals), blocks have extents (shape_blocks). A block of one thread needs nothing.
// Guarantees: with `barriers` (see ir::LoopRun) loops over threads end without waiting, and the checked interpreter
// finds no race between threads. Changes nothing else.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program place_barriers(const ir::Program& program);

}  // namespace loopgrad::transforms
