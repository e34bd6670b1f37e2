// Decides what kernels are launched with: the threads of a block, how many these can be at most, whether the compiler
// should leave registers for many blocks, and whether blocks of one warp share a block of the device.
//
//   for threads_x in select(m > 64, 128, 32)..+1:          for threads_x in select(m > 64, 128, 32)..+1:
//     for threads_y in 256//threads_x..+1:                   for threads_y in 256//threads_x..+1:
//       grid for block_x in 0..blocks_x:               ->      grid for block_x in .. (block of threads_x x threads_y,
//         threads for thread_y in 0..threads_y:                                        at most 256):
//           threads for thread_x in 0..threads_x:
//
// The extents, x first, are those of the first nest of loops over several threads: all such nests of a kernel agree, or
// are one thread's. A kernel without any says nothing. Threads that take columns of a stencil with many loads would
// need more registers than there are for all threads that fit, but they wait for memory: many blocks at once are worth
// more.
//
//   grid for r in 0..n:                            ->      grid for r in 0..n (block of 32 x select(16384 <= n, 8, 1),
//     threads for t in 0..32:                                                  at most 256) (teams):
//
// A multiprocessor holds half as many warps as it could where each is a block, and starting blocks takes time: many
// short rows (those of graphs, say) go eight to a block, as teams that wait for nobody else; where sizes decide how
// many threads a row has, they decide that, too. Not where blocks have memory of their own, or too much of what they
// share.
//
// Requires: wide accesses are decided (widen_accesses), as a chunk that has some is no column. Changes nothing else.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// `enough_threads` as in Machine: where that many are fewer than rows could use, rows stay apart.
ir::Program shape_blocks(const ir::Program& program, std::int64_t enough_threads);

}  // namespace loopgrad::transforms
