#include "transforms/loops/peel.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

Stmt in_pieces(const ir::For& loop, const std::vector<Piece>& pieces) {
  std::vector<Stmt> result;
  for (const Piece& piece : pieces) {
    result.push_back(
        ir::with_fresh_names(ir::for_loop(loop.iterator, simplify_indices(piece.lower), simplify_indices(piece.upper),
                                          piece.body, loop.mode, loop.location)));
  }
  if (loop.mode == ir::LoopMode::Backward) std::reverse(result.begin(), result.end());
  return ir::block(std::move(result));
}

std::optional<Peeled> peel_last(const ir::For& loop) {
  const bool backward = loop.mode == ir::LoopMode::Backward;
  if (!backward && loop.mode != ir::LoopMode::Forward) return std::nullopt;
  if (ir::has_load(loop.lower) || ir::has_load(loop.upper)) return std::nullopt;
  const Expr one = ir::int_const(1);
  const Expr last = backward ? loop.lower : simplify_indices(loop.upper - one);
  return Peeled{ir::for_loop(loop.iterator, backward ? simplify_indices(loop.lower + one) : loop.lower,
                             backward ? loop.upper : last, loop.body, loop.mode, loop.location),
                simplify_indices(ir::substitute(ir::with_fresh_names(loop.body), {{loop.iterator, last}}))};
}

}  // namespace loopgrad::transforms
