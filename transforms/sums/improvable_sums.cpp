#include "transforms/sums/improvable_sums.h"

#include "dsl/ir/notes.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_order.h"

#include <algorithm>
#include <functional>

namespace loopgrad::transforms {

using ir::Stmt;

namespace {

constexpr int worthwhile = strided_cost / 2;  // of memory access saved

// The iterators of the For loops around `target`; false when one of the loops is a While.
bool loops_around(const Stmt& s, const Stmt& target, std::vector<ir::Symbol>& iterators) {
  bool only_fors = true;
  std::function<bool(const Stmt&)> find = [&](const Stmt& at) {
    if (at.get() == target.get()) return true;
    bool found = false;
    auto* loop = at.as<ir::For>();
    if (loop) iterators.push_back(loop->iterator);
    ir::for_each_child(
        at, ir::overloaded{[](const ir::Expr&) {}, [&](const Stmt& child) { found = found || find(child); }});
    if (found && at.kind() == ir::Kind::While) only_fors = false;
    if (!found && loop) iterators.pop_back();
    return found;
  };
  return find(s) && only_fors;
}

bool is_linear(const ir::Expr& index, const std::vector<ir::Symbol>& iterators) {
  return std::all_of(iterators.begin(), iterators.end(),
                     [&](const ir::Symbol& i) { return coefficient_of(index, i).has_value(); });
}

// Whether loops that enumerate the elements of the target would give the sum more parallel loops, or one that runs
// through memory better than its present innermost loop.
bool can_improve(const Stmt& nest, const Stmt& sum) {
  std::vector<ir::Symbol> iterators;
  if (!loops_around(nest, sum, iterators)) return false;
  std::vector<ir::Expr> separators;
  for (const ir::Expr& index : sum.as<ir::Reduce>()->indices) {
    bool varies = std::any_of(iterators.begin(), iterators.end(), [&](const auto& i) { return mentions(index, i); });
    if (varies && is_linear(index, iterators)) separators.push_back(simplify_indices(index));
  }
  if (separators.empty()) return false;
  LoopOrder order = best_order(sum, iterators, separators);
  if (order.summed == 0) return false;
  std::vector<double> innermost(iterators.size(), 0);
  innermost.back() = 1;
  int cost_now = access_cost(sum, iterators, innermost);
  return order.separating > order.separating_before || order.cost + worthwhile <= cost_now;
}

}  // namespace

std::vector<Stmt> improvable_sums(const Stmt& nest, const std::vector<std::vector<Stmt>>& shared) {
  StmtSet taken;
  for (const auto& sums : shared) {
    for (const Stmt& sum : sums) taken.insert(sum.get());
  }
  std::set<ir::Array> own;
  for (const LocalArray& local : locals_of(nest)) own.insert(local.array);
  std::vector<Stmt> result;
  for (const Stmt& leaf : leaves(nest)) {
    auto* sum = leaf.as<ir::Reduce>();
    if (sum && !ir::is_note(leaf) && !own.count(sum->array) && !taken.count(leaf.get()) && can_improve(nest, leaf))
      result.push_back(leaf);
  }
  return result;
}

}  // namespace loopgrad::transforms
