#include "transforms/analysis/strides.h"

#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int repeated = 8;  // trips that a loop of unknown length is taken to make at least
constexpr int most_weight = 4096;

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

/// How often an element is touched that loops around move.
int weight_of(const std::vector<Expr>& indices, const std::vector<ir::Symbol>& around) {
  int weight = 1;
  for (const ir::Symbol& symbol : around) {
    const bool moves = std::any_of(indices.begin(), indices.end(), [&](const Expr& e) { return mentions(e, symbol); });
    if (moves && weight < most_weight) weight *= repeated;
  }
  return weight;
}

int score_of(const Stmt& s, const ir::Symbol& iterator, std::vector<ir::Symbol>& around) {
  if (!s) return 0;
  int score = 0;
  auto add = [&](const std::vector<Expr>& indices) {
    score += weight_of(indices, around) * score_of(indices, iterator);
  };
  for_each_store(s, [&](const ir::Array&, const std::vector<Expr>& indices) { add(indices); });
  const auto* loop = s.as<ir::For>();
  const bool repeats = loop && ir::as_int(loop->upper - loop->lower).value_or(repeated) >= repeated;
  ir::for_each_child(s, ir::overloaded{[&](const Expr& e) {
                                         ir::walk(e, [&](const Expr& x) {
                                           if (const auto* load = x.as<ir::Load>()) add(load->indices);
                                         });
                                       },
                                       [&](const Stmt& child) {
                                         if (repeats) around.push_back(loop->iterator);
                                         score += score_of(child, iterator, around);
                                         if (repeats) around.pop_back();
                                       }});
  return score;
}

}  // namespace

int coalescing_score(const Stmt& s, const ir::Symbol& iterator) {
  std::vector<ir::Symbol> around;
  return score_of(s, iterator, around);
}

std::size_t best_along_threads(const Stmt& body, const std::vector<const ir::For*>& loops) {
  std::size_t best = loops.size() - 1;
  int most = coalescing_score(body, loops[best]->iterator);
  for (std::size_t k = 0; k + 1 < loops.size(); ++k) {
    const int score = coalescing_score(body, loops[k]->iterator);
    if (score <= most) continue;
    best = k;
    most = score;
  }
  return best;
}

}  // namespace loopgrad::transforms
