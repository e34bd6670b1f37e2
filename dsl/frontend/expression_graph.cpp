#include "dsl/frontend/expression_graph.h"

#include "dsl/ir/visit.h"

#include <algorithm>
#include <unordered_set>

namespace loopgrad::ir {
namespace {

constexpr std::size_t most_members = 32;  // of a region: finding out about more takes too long

std::vector<Expr> operands_of(const Expr& e) {
  std::vector<Expr> result;
  for_each_child(e, overloaded{[&](const Expr& child) { result.push_back(child); }, [](const Stmt&) {}});
  return result;
}

bool is_logic(const Expr& e) {
  const auto* n = e.as<Binary>();
  return n && (n->op == BinaryOp::And || n->op == BinaryOp::Or);
}

}  // namespace

void for_each_node(const Expr& root, const std::function<bool(const Expr&)>& f) {
  std::unordered_set<const ExprNode*> seen;
  std::vector<Expr> waiting{root};
  while (!waiting.empty()) {
    const Expr e = std::move(waiting.back());
    waiting.pop_back();
    if (!seen.insert(e.get()).second || !f(e)) continue;
    const std::vector<Expr> operands = operands_of(e);
    waiting.insert(waiting.end(), operands.rbegin(), operands.rend());
  }
}

double tree_size(const Expr& root) {
  const ExpressionGraph graph(root, [](const Expr&) { return false; });
  return graph.node(graph.root()).tree;
}

ExpressionGraph::ExpressionGraph(const Expr& root, const std::function<bool(const Expr&)>& is_leaf) {
  struct Open {
    Expr e;
    std::vector<Expr> operands;
    std::size_t next = 0;
  };
  std::vector<Open> open;
  const auto enter = [&](const Expr& e) { open.push_back({e, is_leaf(e) ? std::vector<Expr>() : operands_of(e)}); };
  enter(root);
  while (!open.empty()) {
    Open& top = open.back();
    if (top.next < top.operands.size()) {
      const Expr next = top.operands[top.next++];
      if (!numbers_.contains(next.get())) enter(next);
      continue;
    }
    Node node{top.e, {}};
    for (const Expr& operand : top.operands) {
      const int k = numbers_.at(operand.get());
      node.tree += nodes_[static_cast<std::size_t>(k)].tree;
      if (std::find(node.operands.begin(), node.operands.end(), k) == node.operands.end()) node.operands.push_back(k);
    }
    for (int k : node.operands) ++nodes_[static_cast<std::size_t>(k)].parents;
    // `v + v` computes v for two operands: that is sharing, too.
    if (top.operands.size() > node.operands.size())
      for (int k : node.operands) ++nodes_[static_cast<std::size_t>(k)].parents;
    numbers_.emplace(top.e.get(), size());
    nodes_.push_back(std::move(node));
    open.pop_back();
  }
  place_nodes();
}

void ExpressionGraph::place_nodes() {
  regions_.resize(2);
  regions_[nowhere] = {0, -1, false, {}, 1};
  std::vector<std::vector<int>> uses(nodes_.size());
  uses.back() = {0};
  for (int n = root(); n >= 0; --n) {
    Node& node = nodes_[static_cast<std::size_t>(n)];
    if (node.tree < least_tree && n != root()) continue;
    node.region = common(std::move(uses[static_cast<std::size_t>(n)]));
    place_operands(n, uses);
  }
}

/// Notes in which regions the operands of node `n` are evaluated.
void ExpressionGraph::place_operands(int n, std::vector<std::vector<int>>& uses) {
  const Node& node = nodes_[static_cast<std::size_t>(n)];
  if (node.operands.empty()) return;
  const int here = node.region;
  const auto use = [&](const Expr& e, int region) { uses[static_cast<std::size_t>(number_of(e))].push_back(region); };
  if (const auto* choice = node.e.as<Select>()) {
    const int condition = number_of(choice->condition);
    use(choice->condition, here);
    use(choice->a, branch(condition, here, false));
    use(choice->b, branch(condition, here, true));
  } else if (is_logic(node.e)) {
    const auto& both = *node.e.as<Binary>();
    use(both.a, here);
    use(both.b, branch(number_of(both.a), here, both.op == BinaryOp::Or));
  } else {
    for (int k : node.operands) uses[static_cast<std::size_t>(k)].push_back(here);
  }
}

int ExpressionGraph::branch(int condition, int parent, bool negated) {
  const auto [found, fresh] = branches_.try_emplace({condition, parent, negated}, regions());
  if (fresh) regions_.push_back({parent, condition, negated, {}, region(parent).depth + 1});
  return found->second;
}

bool ExpressionGraph::is_within(int inner, int outer) const {
  while (region(inner).depth > region(outer).depth) inner = region(inner).parent;
  return inner == outer;
}

int ExpressionGraph::meet(int a, int b) const {
  while (a != b) {
    int& deeper = region(a).depth > region(b).depth ? a : b;
    deeper = region(deeper).parent;
  }
  return a;
}

/// Whether one of the two holds wherever their parent does: the sides of one choice, and, for `a && b`, where b is
/// evaluated and where the whole is false (a decides about the first, and is false in the rest of the second).
bool ExpressionGraph::are_all(int r, int q) const {
  const Region &first = region(r), &second = region(q);
  if (first.condition < 0 || second.condition < 0 || first.parent != second.parent) return false;
  if (first.condition == second.condition) return first.negated != second.negated;
  const auto* whole = node(second.condition).e.as<Binary>();
  if (!whole || first.negated == second.negated) return false;
  return whole->op == (second.negated ? BinaryOp::And : BinaryOp::Or) && is_logic(node(second.condition).e) &&
         number_of(whole->a) == first.condition;
}

/// The smallest region that holds wherever one of these does.
int ExpressionGraph::common(std::vector<int> regions) {
  std::vector<int> least;  // none within another
  for (std::size_t k = 0; k < regions.size(); ++k) {
    int next = regions[k];
    if (std::any_of(least.begin(), least.end(), [&](int r) { return is_within(next, r); })) continue;
    const auto other =
        std::find_if(least.begin(), least.end(), [&](int r) { return are_all(r, next) || are_all(next, r); });
    if (other != least.end()) {
      regions.push_back(region(next).parent);
      continue;
    }
    std::erase_if(least, [&](int r) { return is_within(r, next); });
    least.push_back(next);
    if (least.size() > most_members) return nowhere;
  }
  if (least.size() == 1) return least[0];
  int parent = least[0];
  for (int r : least) parent = meet(parent, r);
  regions_.push_back({parent, -1, false, least, region(parent).depth + 1});
  return this->regions() - 1;
}

}  // namespace loopgrad::ir
