// The part of a kernel that one block of threads executes together.
//
//   local f32 sum                          local f32 sum
//   sum = 0                                sum = 0
//   for c in 0..n:                         threads for t in 0..T:
//     e[c] = exp(x[r, c])                    local f32 sum_part
//     sum += e[c]                    ->      sum_part = 0
//   parallel for c in 0..n:                  for c in t..n step T:
//     y[r, c] = e[c]/sum                       e[c] = exp(x[r, c])
//                                              sum_part += e[c]
//                                            sum_all += sum_part           # all threads together
//                                          sum += sum_all
//                                          threads for t in 0..T:
//                                            for c in t..n step T:
//                                              y[r, c] = e[c]/sum
//
// What the result means: statements outside of Threads loops are executed once per block (by every thread on a copy of
// its own where they only set scalars of the block); a Threads loop is executed by the threads, which wait for each
// other at its end. An atomic Reduce into a scalar of the block is the block's own: the emitter turns it into a tree of
// fixed order. "step T" is a loop over steps around a loop of one trip or a few, see `strided_loop`.
#pragma once

#include "transforms/analysis/analysed.h"

#include <vector>

namespace loopgrad::transforms {

/// `s`, which must be inside `program`, for a block of `threads` threads (an expression of symbols around the kernel).
/// Legality: parallel loops are taken at their word; sequential ones are spread only where `shared_sums` allows.
ir::Stmt spread_loops(const Analysed& program, const ir::Stmt& s, const ir::Expr& threads);

/// The same for a kernel of one block: no other one can change scalars around it meanwhile.
ir::Stmt spread_in_one_block(const Analysed& program, const ir::Stmt& s, const ir::Expr& threads);

struct RowLoops;  // see keep_rows.h

/// The same, with the elements of local rows kept by the threads:
///
///   local f32 e[n]                         local f32 e[T, 8]
///   for c in 0..n:                         threads for t in 0..T:
///     e[c] = x[r, c]                ->       for k in 0..8:
///                                              for c in (t//32)*256 + t%32 + k*32..min(.. + 1, n):
///                                                e[t, k] = x[r, c]
///
/// Requires: n <= 8*T.
ir::Stmt spread_rows(const Analysed& program, const ir::Stmt& s, const ir::Expr& threads, const RowLoops& rows);

/// The same for rows whose length only data tell, by `threads` threads exactly. Neighbouring threads take neighbouring
/// iterations of the loops over a row one by one, since rows begin anywhere; loops inside that only sum are each
/// thread's own, or, where several elements have sums over the row, see lane_groups.h.
ir::Stmt spread_ragged(const Analysed& program, const ir::Stmt& s, std::int64_t threads);

/// Parallel loops directly inside of each other, from `s` on, of which the inner ones make a few trips, a constant
/// number, together: threads share them as one,
///
///   parallel for j in 0..m:                threads for t in 0..T:
///     parallel for i in 0..5: A     ->       for place in t..5*m step T:
///                                              let j = place//5, i = place%5: A
///
/// One loop or none: they are not.
std::vector<const ir::For*> short_nest(const ir::Stmt& s);

/// Whether `spread_loops` would spread anything.
bool can_spread(const Analysed& program, const ir::Stmt& s);

/// How many threads a block has when its loops say so: the parallel loops in `body`, more than one of them, all run
/// over the same constant number of iterations, and share an array that is allocated around all of them. Such loops
/// take a thread for each iteration, and an array of a row for each is the threads' own (place_locals.h).
std::optional<std::int64_t> team_of(const ir::Stmt& body);

/// for i in lower + first, lower + first + stride, ... below upper: body. Where that makes for wide accesses, for
/// chunks of neighbouring iterations in place of single ones; see transforms/analysis/contiguous.h.
ir::Stmt strided_loop(const ir::Symbol& i, const ir::Expr& lower, const ir::Expr& upper, const ir::Expr& first,
                      const ir::Expr& stride, ir::Stmt body, const SourceLocation& location);

/// for i in first, first + stride, ... below upper: body, one by one.
ir::Stmt every_nth(const ir::Symbol& i, const ir::Expr& first, const ir::Expr& upper, const ir::Expr& stride,
                   ir::Stmt body, const SourceLocation& location);

}  // namespace loopgrad::transforms
