// In which order a tape has its dimensions.
#include "dsl/ir/queries.h"
#include "dsl/poly/dependences.h"
#include "tape/stores.h"
#include "tape/tape_plan.h"

#include <algorithm>

namespace loopgrad::tape {

using ir::Expr;
using ir::Stmt;
using poly::ask;

namespace {

/// Every element that `s` touches in memory moves with `lane` in its last index only, or not at all, and that index
/// does not move with `inner`.
bool moves_contiguously(const Stmt& s, const ir::Symbol& lane, const ir::Symbol& inner) {
  bool result = true;
  auto look = [&](const std::vector<Expr>& indices) {
    for (std::size_t k = 0; k + 1 < indices.size(); ++k) result &= !mentions(indices[k], lane);
    if (!indices.empty()) result &= !mentions(indices.back(), inner);
  };
  ir::walk(
      s,
      [&](const Stmt& child) {
        if (stored_array(child)) look(stored_indices(child));
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<ir::Load>()) look(load->indices);
      });
  return result;
}

}  // namespace

/// Whether the loop's iterations must run in order, for other reasons than sums.
bool TapePlan::is_sequential(const Stmt& loop) const {
  return !model_ ||
         ask(*model_, true, [&] { return !poly::carried_by(*model_, loop, poly::Search::SkipSums).empty(); });
}

/// The dimensions of a tape in the order of its loops, but for one case: when the innermost loop must run in sequence
/// while a loop around it need not and moves through contiguous memory, that one becomes the last dimension. Then both
/// sweeps can take many of its iterations side by side, as lanes or threads that touch neighbouring elements.
std::vector<Stmt> TapePlan::in_layout(std::vector<Stmt> loops) const {
  if (loops.size() < 2 || loops.back().kind() != ir::Kind::For || !is_sequential(loops.back())) return loops;
  for (std::size_t k = loops.size() - 1; k-- > 0;) {
    if (loops[k].kind() != ir::Kind::For || is_sequential(loops[k])) continue;
    if (moves_contiguously(loops.back(), iterator_of(loops[k]), iterator_of(loops.back())))
      std::rotate(loops.begin() + static_cast<std::ptrdiff_t>(k), loops.begin() + static_cast<std::ptrdiff_t>(k) + 1,
                  loops.end());
    break;
  }
  return loops;
}

}  // namespace loopgrad::tape
