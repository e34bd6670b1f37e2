// How many iterations of which parallel loops a thread or block should take at once, so that what it loads for a sum
// serves several sums:
//
//   y[b, k, i, j] += x[b, c, i + r, j + s]*w[k, c, r, s]       4 of b and 4 of k: 8 loads for 16 products, not 32
//
// Tiles are worth their registers for dense sums only: every element that the loops inside load belongs to several
// iterations of the nest, so that loads from the nearest cache are what takes the time, and not memory.
#pragma once

#include "dsl/ir/program.h"

#include <vector>

namespace loopgrad::transforms {

struct TiledLoop {
  const ir::For* loop;
  std::int64_t width;
};

/// Parallel loops around a body, of which neighbours can be taken in lockstep (see lockstep.h).
struct TileCandidates {
  std::vector<const ir::For*> all;   // of the nest
  std::vector<const ir::For*> free;  // those of which copies may be made
  const ir::For* x = nullptr;        // whose neighbours are neighbouring threads
  bool wide_x = false;               // each thread takes a chunk along x in any case
  std::int64_t most = 16;            // iterations that make one tile
};

/// The loops that should have copies: one or two, and not x. Empty: the loads saved would be few.
std::vector<TiledLoop> register_tile(const ir::Stmt& body, const TileCandidates& loops);

/// Whether each loop has iterations enough, and all `total` iterations of the nest make as many tiles as `enough`.
ir::Expr fill_device(const std::vector<TiledLoop>& tile, const ir::Expr& total, std::int64_t enough);

/// How many trips the loop makes at most, in what does not depend on loops around it: the least difference between an
/// upper and a lower bound of which that is known. Null: there is none.
ir::Expr most_trips(const ir::Expr& lower, const ir::Expr& upper, const std::vector<ir::Symbol>& around);
inline ir::Expr most_trips(const ir::For& loop, const std::vector<ir::Symbol>& around) {
  return most_trips(loop.lower, loop.upper, around);
}

/// How many iterations all of them together make one.
std::int64_t iterations_of(const std::vector<TiledLoop>& tile);

}  // namespace loopgrad::transforms
