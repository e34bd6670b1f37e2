// Marks rows that may be stored past the caches.
//
//   for j in 0..n (lanes):                  for j in 0..n (lanes) (streams 4*n*n + 4*n*n):
//     y[i, j] = x[i, j]*2             ->      y[i, j] = (streamed) x[i, j]*2
//
// An ordinary store first reads its line from memory: a quarter to a half of the traffic of simple loops. Where the
// arrays that the loop uses are larger than a cache, which is asked at run time, what it stores goes past.
//
// Requires: lanes and threads are decided. Guarantees: streamed elements are of arrays of the caller that the program
// assigns and does nothing else with, next to each other, one row of an array in a loop. Leaves alone: loops with
// loops, locals or sums inside, or over few trips or a range that data decide; those that compute more than they store,
// where the two should overlap, as they do with ordinary stores; and loops that threads share.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program stream_rows(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
