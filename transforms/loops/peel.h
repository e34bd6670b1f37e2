// A loop in pieces, one after the other.
//
//   for i in 0..n:                         for i in 0..min(1, n): A
//     if i >= 1: B             ->          for i in min(1, n)..n: B; A
//     A
//
// What each piece has for a body, and so why it pays, is the caller's. Legality: the bounds of the pieces are evaluated
// where those before have run already, so the loop must not change what its own bounds read (`bounds_stay`).
#pragma once

#include "transforms/loops/legality.h"

namespace loopgrad::transforms {

/// Iterations lower..upper of a loop.
struct Piece {
  ir::Expr lower, upper;
  ir::Stmt body;
};

/// Pieces that cover a loop, of rising iterators, in the order in which it runs.
ir::Stmt in_pieces(const ir::For& loop, const std::vector<Piece>& pieces);

/// The last iteration that a loop runs, if it runs, and the loop before that.
struct Peeled {
  ir::Stmt before, last;
};
/// nullopt for parallel loops, and where the bounds are data.
std::optional<Peeled> peel_last(const ir::For& loop);

}  // namespace loopgrad::transforms
