// Rows that the threads of a block visit more than once stay in their registers.
//
//   for c in 0..n: sum += x[r, c]                local f32 x_row[n]
//   parallel for c in 0..n:                      parallel for c in 0..n: x_row[c] = x[r, c]
//     y[r, c] = x[r, c]/sum              ->      for c in 0..n: sum += x_row[c]
//                                                parallel for c in 0..n: y[r, c] = x_row[c]/sum
//
// `spread_rows` gives each element of such a local to one thread for good: loops over rows ("row loops") are spread so
// that a thread meets the same few elements in all of them. Then a row is read from memory once, and
// written once however often it is updated; partial results of a loop around, like the sums of columns over the rows
// of a block, are written once at its end.
//
// Requires: a body for the threads of one block. Guarantees: every element gets the same operations in the same order.
// Leaves alone: arrays that are touched in other places as well, or may alias; rows whose length the host does not
// know.
#pragma once

#include "transforms/analysis/analysed.h"
#include "transforms/map/gpu/parallel_nest.h"
#include "transforms/map/gpu/shared_sums.h"

#include <set>

namespace loopgrad::transforms {

inline constexpr std::int64_t kept_per_thread = 8;  // elements of a row that one thread keeps

/// The one length of rows in a kernel.
struct RowLoops {
  ir::Expr length;
  std::vector<OwnElement> scalars = {};  // of the block

  /// Whether `loop`, inside `program`, runs over a row: it starts at a constant, ends at the length, and its
  /// iterations, without loops inside, share nothing but sums that `spread_rows` can give to threads.
  bool contains(const Analysed& program, const ir::Stmt& loop) const;
};

/// A program in which rows are kept in locals, and those locals (with those that were there before).
struct KeptRows {
  ir::Program program;
  ir::Stmt body;  // of the nest, inside `program`
  RowLoops rows;
};

/// For the body of a nest inside `program`; nullopt where nothing is worth keeping.
std::optional<KeptRows> keep_rows(const Analysed& program, const ParallelNest& nest);

/// Locals of the block that only row loops touch, each iteration its own element: they fit the registers.
bool is_kept(const Analysed& program, const ir::Allocate& local, const RowLoops& rows);

}  // namespace loopgrad::transforms
