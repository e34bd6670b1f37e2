// Does a recurrence in pieces side by side: a scan of a fixed tree.
//
//   for i in 0..n:                         parallel for q in 0..ceil(n/P):                       # what a piece does
//     x[i] = a[i]*x[i - 1] + b[i]    ->      factor[q], term[q] = 1, 0
//                                            for i in q*P..q*P + P:
//                                              factor[q], term[q] = a[i]*factor[q], a[i]*term[q] + b[i]
//                                          for q in 0..ceil(n/P):                                # between pieces
//                                            after[q] = factor[q]*after[q - 1] + term[q]
//                                          parallel for q in 0..ceil(n/P):                       # each from its start
//                                            for i in q*P..q*P + P: as above, from after[q - 1]
//
// The middle is a recurrence again. The tree depends on sizes alone, never on how many threads run, so the bits are the
// same in every run.
//
// Composites are f64 where the carried value is f32: products of its numbers neither overflow nor underflow there in
// any piece where the loop in order would have a finite number left of them. Where one is not finite all the same
// (4^2000 from a start of 0; infinities among the inputs), or in f64 has lost bits to underflow, the steps concerned
// are done in their order. So a number that the loop in order finds finite is not lost to 0*inf. Extrema do not round
// and are the same bits as in order, also among NaNs.
//
// Requires: a machine that does recurrences in pieces (Machine::least_scanned); loops that are perfectly nested in
// parallel ones, or in nothing. Guarantees: each element up to the rounding of a sum in another order, with errors as
// if each factor and term were off by a few last bits. Sizes decide at run time whether a loop is long enough.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

/// Where neighbouring rows are neighbours in memory, more of them keep a GPU busy without pieces.
inline constexpr std::int64_t most_rows_in_pieces = 16 * 1024;

ir::Program scan_recurrences(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
