// The sums over iterations that are sorted by their targets.
//
//   parallel for c in 0..ceil(n/piece):                 pieces of so many positions
//     parts[0..2, c] = sums of those in the piece of up to two targets that have more iterations than that
//   parallel for t in 0..targets:
//     t's element += the sum over its positions, or over its parts
//
// So a target that most iterations add to does not wait for one thread. Pieces are as long for all sizes: shorter ones
// for few iterations, with parts of parts for long segments, were measured on an H200 and took longer for short rows.
//
// Sums with one order, as of the components of a vector, are summed up together: an instance is looked up once. So are
// sums into elements at a fixed distance, as those of an interpolation are: t takes the positions of t - distance.
// Sums with several orders, as those into both ends of an edge, share the loops where these have the same bounds: a
// step of few elements waits for launches, not for sums.
#pragma once

#include "dsl/ir/rewriter.h"
#include "transforms/bounds/open_accesses.h"
#include "transforms/sums/sorted_iterations.h"

namespace loopgrad::transforms {

/// The iterators of `scatter`'s loops over rows as those of `like`; nullopt where these loops differ, or where both add
/// to one array and iterations of different targets and rows may meet in it, as those of x[t, k] and x[t, m - k] would.
std::optional<ir::Substitution> same_rows(const Scatter& like, const Scatter& scatter);

/// Sums that have rows in common (`same_rows`, each with each), and the order of all of them (`shift_to`).
struct SortedSums {
  const std::vector<Scatter>* sums;
  const SortedIterations* sorted;
};

/// Requires: all may be done in any order. `ranges`: of all iterators.
ir::Stmt segment_sums(const std::vector<SortedSums>& all, std::int64_t piece, const IndexRanges& ranges);

}  // namespace loopgrad::transforms
