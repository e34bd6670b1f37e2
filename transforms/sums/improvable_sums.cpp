#include "transforms/sums/improvable_sums.h"

#include "dsl/ir/notes.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_order.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

constexpr int worthwhile = strided_cost / 2;  // of memory access saved

bool is_linear(const ir::Expr& index, const std::vector<ir::Symbol>& iterators) {
  return std::all_of(iterators.begin(), iterators.end(),
                     [&](const ir::Symbol& i) { return coefficient_of(index, i).has_value(); });
}

// Whether loops that enumerate the elements of the target would give the sum more parallel loops, or one that runs
// through memory better than its present innermost loop.
bool can_improve(const std::vector<Stmt>& around, const Stmt& sum, const Machine& machine) {
  std::vector<ir::Symbol> iterators;
  for (const Stmt& s : around) {
    if (s.kind() == ir::Kind::While) return false;
    if (const auto* loop = s.as<ir::For>()) iterators.push_back(loop->iterator);
  }
  std::vector<ir::Expr> separators;
  for (const ir::Expr& index : sum.as<ir::Reduce>()->indices) {
    bool varies = std::any_of(iterators.begin(), iterators.end(), [&](const auto& i) { return mentions(index, i); });
    if (varies && is_linear(index, iterators)) separators.push_back(simplify_indices(index));
  }
  if (separators.empty()) return false;
  LoopOrder order = best_order(sum, iterators, separators, machine.elements_at_once);
  if (order.summed == 0) return false;
  std::vector<double> innermost(iterators.size(), 0);
  innermost.back() = 1;
  int cost_now = access_cost(sum, iterators, innermost);
  return order.separating > order.separating_before || order.cost + worthwhile <= cost_now;
}

}  // namespace

std::vector<Stmt> improvable_sums(const Stmt& nest, const std::vector<std::vector<Stmt>>& shared,
                                  const Machine& machine) {
  StmtSet taken;
  for (const auto& sums : shared) {
    for (const Stmt& sum : sums) taken.insert(sum.get());
  }
  std::set<ir::Array> own;
  for (const LocalArray& local : locals_of(nest)) own.insert(local.array);
  const auto around = surroundings(nest);
  std::vector<Stmt> result;
  for (const Stmt& leaf : leaves(nest)) {
    auto* sum = leaf.as<ir::Reduce>();
    if (sum && !ir::is_order_free(leaf) && !own.count(sum->array) && !taken.count(leaf.get()) &&
        can_improve(around.at(leaf.get()), leaf, machine))
      result.push_back(leaf);
  }
  return result;
}

}  // namespace loopgrad::transforms
