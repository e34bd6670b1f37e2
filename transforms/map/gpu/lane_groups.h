// Threads of a block that share both of two loops: neighbours take the inner, contiguous one, and groups of them the
// outer one, whose length only data tell.
//
//   parallel for j in 0..d:                      local f32 sums[4*T]
//     y[j] = 0                                   for c in 0..ceil(d/(4*L)):                # L lanes, G = T/L groups
//     for e in p[v]..p[v + 1]:                     threads for t in 0..T:
//       y[j] += a[e]*h[col[e], j]                    for j in (c*L + t%L)*4.. four in lockstep:
//                                          ->          part = 0
//                                                      for e in p[v] + t//L.. step G: part += a[e]*h[col[e], j]
//                                                      sums[4*t + j%4] = part
//                                                  threads for t in 0..T:
//                                                    for k in t..4*L step T:                # j = 4*L*c + k
//                                                      y[j] = 0
//                                                      for g in 0..G: y[j] += sums[4*L*g + k]
//
// What neighbouring threads load is contiguous, each thread keeps its sums in registers, and however long the data make
// the outer loop and however short the inner one is, all threads have a share. Where accesses would not be wide, a lane
// takes one iteration in place of four.
#pragma once

#include "transforms/analysis/analysed.h"

namespace loopgrad::transforms {

/// Whether only data tell how often the loop runs.
bool has_length_from_data(const ir::For& loop);

/// Whether `loop`, a For of `program`, is a parallel loop that `lane_groups` takes: it executes statements without
/// loops and at least one loop of a length from data that does nothing but to sum into elements of its own, in a row.
/// Neighbouring iterations of `loop` touch neighbouring elements.
bool fits_lane_groups(const Analysed& program, const ir::For& loop);

/// `loop` for a block of `threads` threads, a power of two from 32. Requires: it fits. Every element
/// gets the same terms, in an order that depends on the number of threads and the bounds of the loops only.
ir::Stmt lane_groups(const Analysed& program, const ir::For& loop, std::int64_t threads);

}  // namespace loopgrad::transforms
