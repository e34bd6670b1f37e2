#include "transforms/gpu/strides.h"

#include "dsl/ir/visit.h"
#include "transforms/linear_form.h"
#include "transforms/nest.h"

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

/// +1 for neighbouring elements, -1 for a jump, 0 when the iterator does not occur.
int score_of(const std::vector<Expr>& indices, const ir::Symbol& iterator) {
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (!mentions(indices[d], iterator)) continue;
    if (d + 1 < indices.size()) return -1;
    const auto step = coefficient_of(indices[d], iterator);
    return step && (*step == 1 || *step == -1) ? 1 : -1;
  }
  return 0;
}

}  // namespace

bool has_load(const Expr& e) {
  bool found = false;
  ir::walk(e, [&](const Expr& x) { found |= x.kind() == ir::Kind::Load; });
  return found;
}

bool is_parallel_loop(const Stmt& s) {
  const auto* loop = s ? s.as<ir::For>() : nullptr;
  return loop && loop->mode == ir::LoopMode::Parallel;
}

int coalescing_score(const Stmt& s, const ir::Symbol& iterator) {
  int score = 0;
  ir::walk(
      s,
      [&](const Stmt& child) {
        for_each_store(
            child, [&](const ir::Array&, const std::vector<Expr>& indices) { score += score_of(indices, iterator); });
      },
      [&](const Expr& e) {
        if (const auto* load = e.as<ir::Load>()) score += score_of(load->indices, iterator);
      });
  return score;
}

}  // namespace loopgrad::transforms
