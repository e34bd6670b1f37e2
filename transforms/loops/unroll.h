// Repetition of loop bodies.
//
//   for i in 0..n:                        for i_unrolled in 0..n//2:                    (unroll_and_jam by 2)
//     local s                               local s, s
//     s = 0                                 s = 0
//     for j in 0..k: s += x[i + j]    ->    s = 0
//     y[i] = s                              for j in 0..k:
//                                             s += x[2*i_unrolled + j]
//                                             s += x[2*i_unrolled + 1 + j]
//                                           y[2*i_unrolled] = s
//                                           y[2*i_unrolled + 1] = s
//                                         for i in n//2*2..n: (as before)
//
// Unrolling keeps the order and is always legal. Jamming changes it: all copies of one statement run before the next
// statement, and the copies of an inner loop share its iterations. Inner loops whose bounds depend on the unrolled
// iterator or on data, branches and whiles are repeated as a whole.
#pragma once

#include "transforms/loops/reorder_loops.h"

namespace loopgrad::transforms {

/// `factor` 0: the loop has constant bounds and disappears. Throws UsageError for more than `most_copies` copies.
Scheduled unroll_loop(const Analysed& program, const LoopName& loop, std::int64_t factor);
Scheduled unroll_and_jam(const Analysed& program, const LoopName& loop, std::int64_t factor);
inline constexpr std::int64_t most_copies = 64;

/// The body for each iteration of a loop that runs a constant number of times, in their order; nullopt for others, and
/// for more than `most_copies`. One after another, these are the loop, where its bounds stay (legality.h).
std::optional<std::vector<ir::Stmt>> iterations_of(const ir::For& loop, const ir::Stmt& body);

/// Whether a loop may be unrolled and jammed: parallel ones may if their bounds stay.
Legality can_jam(const Analysed& program, const ir::Stmt& loop, std::int64_t factor);
/// A loop of `program` unrolled and jammed, where that is legal.
ir::Stmt jammed(const ir::Program& program, const ir::For& loop, std::int64_t factor);

/// Groups of `lanes` iterations of an innermost loop, marked parallel, so that they run side by side.
Scheduled vectorize_loop(const Analysed& program, const LoopName& loop, std::int64_t lanes);
Scheduled parallelize_loop(const Analysed& program, const LoopName& loop);

}  // namespace loopgrad::transforms
