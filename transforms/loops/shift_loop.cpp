#include "transforms/loops/shift_loop.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"

#include <cstdlib>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

// `e` less `by`, which is taken into minima and maxima; notes whether a term has lost its dependence on `outer`.
Expr less(const Expr& e, const Expr& by, const ir::Symbol& outer, bool& freed) {
  const auto* node = e.as<ir::Binary>();
  if (node && (node->op == BinaryOp::Max || node->op == BinaryOp::Min))
    return ir::binary(node->op, less(node->a, by, outer, freed), less(node->b, by, outer, freed));
  const Expr result = simplify_indices(e - by);
  freed |= !mentions(result, outer);
  return result;
}

bool moves_by_neighbours(const std::vector<Expr>& indices, const ir::Symbol& outer) {
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const auto stride = coefficient_of(indices[d], outer);
    const bool last = d + 1 == indices.size();
    if (ir::has_load(indices[d]) || !stride || (*stride != 0 && !(last && std::abs(*stride) == 1))) return false;
  }
  return true;
}

}  // namespace

std::optional<Stmt> shifted_along(const ir::For& loop, const ir::Symbol& outer) {
  bool lower_freed = false, upper_freed = false;
  const Expr at = ir::var(outer);
  const Expr lower = less(loop.lower, at, outer, lower_freed), upper = less(loop.upper, at, outer, upper_freed);
  if (!lower_freed || !upper_freed) return std::nullopt;
  const Stmt body = simplify_indices(ir::substitute(loop.body, {{loop.iterator, ir::var(loop.iterator) + at}}));
  bool fits = true;
  ir::walk(
      body,
      [&](const Stmt& s) {
        if (const auto* a = s.as<ir::Assign>()) fits &= moves_by_neighbours(a->indices, outer);
        if (const auto* r = s.as<ir::Reduce>()) fits &= moves_by_neighbours(r->indices, outer);
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<ir::Load>()) fits &= moves_by_neighbours(load->indices, outer);
      });
  if (!fits) return std::nullopt;
  return ir::for_loop(loop.iterator, lower, upper, body, loop.mode, loop.location);
}

}  // namespace loopgrad::transforms
