// The sums over iterations that are sorted by their targets.
//
//   parallel for c in 0..ceil(n/piece):                 pieces of so many positions
//     parts[0..2, c] = sums of those in the piece of up to two targets that have more iterations than that
//   parallel for t in 0..targets:
//     t's element += the sum over its positions, or over its parts
//
// So a target that most iterations add to does not wait for one thread. Pieces are as long for all sizes: shorter ones
// for few iterations, with parts of parts for long segments, were measured on an H200 and took longer for short rows.
#pragma once

#include "transforms/sums/sorted_iterations.h"

namespace loopgrad::transforms {

/// `sorted` has the order of `scatter`, or of one that it serves.
ir::Stmt segment_sums(const Scatter& scatter, const SortedIterations& sorted, std::int64_t piece);

}  // namespace loopgrad::transforms
