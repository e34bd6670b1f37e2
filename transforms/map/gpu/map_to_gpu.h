// Maps a lowered program to the grid, blocks and threads of a GPU.
//
//   parallel for i in 0..n:          for tx in select(m > 64, 128, 32)..+1:           # a constant of the launch
//     parallel for j in 0..m:          for ty in 256 // tx..+1:
//       b[j, i] = a[i, j]        ->      grid for gi in 0..ceil(n/ty):
//                                          grid for gj in 0..ceil(m/tx):
//                                            threads for ti in 0..ty:
//                                              threads for tj in 0..tx:
//                                                for i in gi*ty + ti..min(.. + 1, n):     # if i < n
//                                                  for j in gj*tx + tj..min(.. + 1, m):   # if j < m
//                                                    b[j, i] = a[i, j]
//
// The result is an ordinary program: it prints, verifies and runs in the checked interpreter, where a race, a missing
// barrier or an index out of bounds shows without a GPU.
//
// What the result looks like. Around kernels only Blocks, Allocates, sequential loops and Ifs whose bounds and
// conditions are of sizes and iterators: the host runs those as a sequence of launches. A kernel is a nest of Grid
// loops; inside it, either one nest of Threads loops (each thread on its own) or a body as `spread_loops` makes it. All
// Threads loops of a kernel have the extents of its block, or 1. Arrays allocated inside Grid loops but outside Threads
// loops belong to the block, those inside Threads loops to the thread. A program that pushes or pops stays as it is:
// it is one kernel of one thread.
//
// How loops are mapped. A nest of parallel loops becomes one thread per iteration, the loop whose neighbours touch
// neighbouring elements along x; or, when loops inside it touch memory in a better order or the nest alone is too
// small to fill the device, one block per iteration with the loops inside spread over its threads. A long sum into one
// element becomes partial sums of many blocks and a second kernel that combines them in a fixed order; short ones and
// assignments of single elements in a row are done by one block, where the host finds them short, or by each block that
// reads the result, where these are few. Sequential loops around parallel ones become host loops, or one kernel of one
// block when they make many trips. What data decide (the condition of a while, a bound, a branch) the host does not
// know: it launches all steps that there may be, and kernels look up whether theirs takes place (data_control.h); where
// steps are many, or little is in each, they are a kernel of one block.
// Threads take chunks or tiles of iterations where that makes wide accesses, threads and blocks tiles where several
// sums share what they load. See docs/design/gpu_mapping.md.
//
// Requires: parallel loops are marked. Guarantees: every element gets the same operations up to the order of sums, and
// that order depends on the sizes only.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program map_to_gpu(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
