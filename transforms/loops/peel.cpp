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

}  // namespace loopgrad::transforms
