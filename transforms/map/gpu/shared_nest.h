// Which loops the threads of a block share where sums go over loops directly inside of each other.
//
//   for i in 0..h:                         threads for t in 0..T:
//     for j in 0..w: s += x[i, j]     ->     for i in t//lanes..h step T//lanes:
//                                              for j in t%lanes..w step lanes: part += x[i, j]
//
// Neighbouring threads take neighbours along the loop whose accesses are in the best order, as many as it has chunks
// for (`lanes`), and groups of so many the loop around it: else most threads had nothing to do in short rows.
#pragma once

#include "transforms/map/gpu/shared_sums.h"

namespace loopgrad::transforms {

struct SharedNest {
  ir::Stmt shared;                  // the loop that neighbouring threads share; null: none
  const ir::For* around = nullptr;  // directly around it, shared by groups of threads; null: one thread does all of it
};

/// `loop` itself, or where a loop inside touches memory in a better order that one, if it is directly inside, or inside
/// that, and sums up the same: each thread then has one sum at the end of `loop`, and not one in each trip. Null:
/// neither; the loops inside are spread by themselves. `sums` are the loop's.
SharedNest nest_to_share(const Analysed& program, const ir::Stmt& loop, const std::vector<SharedSum>& sums);

/// The parallel loop that is all a parallel `loop` does in an iteration but for setting scalars of it, where threads
/// need not meet between iterations: neighbours share the inner one, groups of them the outer one, and each thread sets
/// its own scalars. Null: it is not so, or how long the inner loop is differs from iteration to iteration.
ir::Stmt parallel_loop_inside(const ir::For& loop);

/// Threads along `shared`, of `threads` in all: a power of two, or all of them.
ir::Expr lanes_along(const ir::For& shared, const ir::Expr& threads);

/// A loop of a few trips, which threads do not share.
bool has_few_trips(const ir::For& loop);

}  // namespace loopgrad::transforms
