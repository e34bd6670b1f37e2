// The sums over iterations that are sorted by their targets.
//
//   parallel for c in 0..ceil(n/p):                            pieces of p positions
//     parts[0..2, c] = sums of those in the piece of up to two targets that have more than p iterations
//   parallel for g in 0..ceil(n/p/128):                        groups of pieces that are one target's
//     groups[g] = the sum of parts[0, c] in the group
//   parallel for t in 0..targets:
//     t's element += the sum over its positions, or over its parts, or over parts at the ends and groups between
//
// So a target that most iterations add to does not wait for one thread, and a thread adds up a few hundred terms at
// most one after the other. p is 128 or, where that would leave threads without work, less: a number that sizes decide,
// and with it the order of every sum.
#pragma once

#include "transforms/sums/sorted_iterations.h"

namespace loopgrad::transforms {

/// How sums are cut for a machine.
struct Pieces {
  std::int64_t longest = 128, shortest = 16;  // positions of a piece: powers of two times the shortest
  std::int64_t threads = 1;                   // fewer pieces, times the elements of a row, leave it half empty
  std::int64_t group = 128;                   // pieces of a group
};

/// `sorted` has the order of `scatter`, or of one that it serves.
ir::Stmt segment_sums(const Scatter& scatter, const SortedIterations& sorted, const Pieces& pieces);

}  // namespace loopgrad::transforms
