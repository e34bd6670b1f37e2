// Sums through an index array: the iterations are sorted by their targets first, then every target takes its own.
//
//                                            words[i] = (idx[i], i); sort words
//                                            parallel for p in 0..n: i_of[p], begin[t], end[t] of the target there
//   for i in 0..n:                           parallel for c in 0..ceil(n/128):                     # pieces
//     parallel for j in 0..d:          ->      parallel for j in 0..d:
//       d_t[idx[i], j] += d_y[i, j]              part[0..2, c, j] = sums of the positions in the piece of up to two
//                                                                   targets that have more than 128 iterations
//                                            parallel for t in 0..targets:
//                                              parallel for j in 0..d:
//                                                d_t[t, j] += the sum over begin[t]..end[t] or over its parts
//
// The sort (counting_sort.h) is made of ordinary loops, so that the checked interpreter can run it and no compiler is
// needed that a machine with a driver alone does not have.
//
// What is sorted before a loop in order serves all of its iterations. Conditions that change from one to the next then
// leave nothing out of the order; the sum looks at them again.
//
// Long segments are cut into pieces, so that a target that most iterations add to does not wait for one thread.
//
// Loops in order that depend on each other through such elements in other ways go by their keys (keyed_loops.h).
//
// Requires: parallel loops are marked. Guarantees: every element gets the same operations up to the order of the sum,
// which depends on the index array only. Leaves alone what `scatter_in` rejects; sums with 2^31 iterations or 2^30
// targets are left to `owned_scatter` by the host.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

/// Both as in LowerOptions and its machine; a device that is full with few threads gets short pieces and small tiles.
/// `context`: its plans say what is sorted, its remarks which loops go by their keys.
ir::Program sort_scatters(const ir::Program& program, std::int64_t enough_threads, int threads_per_block = 0,
                          PassContext* context = nullptr);

}  // namespace loopgrad::transforms
