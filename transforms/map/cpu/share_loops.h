// Decides which loops threads share, and when they pay for it.
//
//   for t in 0..steps:                 for t in 0..steps:
//     parallel for i in 0..n:            parallel for i in 0..n (threads) (together 2) (pays from 20000 at m*(..)) (or
//     alone):
//       parallel for j in 0..m:   ->       parallel for j in 0..m:
//         for k in 0..8: ..                  for k in 0..8: ..
//
// The outermost parallel loop takes the threads, together with parallel ones perfectly nested in it as long as a loop
// is left inside for one thread to do, and then is not in vector lanes. Where iterations may differ much in work
// threads fetch small shares, else they get equal ones, so that data stays in the cache of its thread from loop to
// loop. Below least_parallel_work operations a region costs more than it gains; inside of a sequential loop even one of
// a single thread is dear, and the loop is done without.
//
// Requires: parallel loops marked, vector lanes decided (vectorize_loops): there are no threads in a loop over lanes.
// Guarantees: no loop on threads inside of another. Changes no order. Leaves alone loops of a single trip.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

/// Below this many operations a parallel loop costs more than it gains.
inline constexpr std::int64_t least_parallel_work = 20000;

ir::Program share_loops(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
