// A recorded expression as a graph: its distinct nodes in a list, how large they are written out, and under which
// conditions they are evaluated. Nothing here recurses: users' expressions are as deep as their loops are long.
#pragma once

#include "dsl/ir/expr.h"

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace loopgrad::ir {

/// Calls `f` once for every distinct node, parents first; `f` may return false to skip what is below.
void for_each_node(const Expr& root, const std::function<bool(const Expr&)>& f);

/// Nodes of the expression written out; a double, because it grows exponentially with sharing.
double tree_size(const Expr& root);

/// A place in the expression that is evaluated only where its guard holds. Region 0 is the whole expression.
struct Region {
  int parent = -1;           // its guard holds, too
  int condition = -1;        // a node: the guard is the parent's and this one, or and not this one
  bool negated = false;      //
  std::vector<int> members;  // otherwise: any of these regions (and no condition)
  int depth = 0;             // in the tree of parents
};

class ExpressionGraph {
 public:
  /// Does not look below nodes for which `is_leaf` says so.
  ExpressionGraph(const Expr& root, const std::function<bool(const Expr&)>& is_leaf);

  static constexpr double least_tree = 4;  // a smaller value is as easily computed again
  static constexpr int nowhere = 1;        // the region of what is evaluated in too many of them

  struct Node {
    Expr e;
    std::vector<int> operands;  // distinct
    double tree = 1;            // nodes written out
    int parents = 0;            // distinct
    int region = 0;             // where it is evaluated; not known of trees of less than `least_tree` nodes
  };
  int size() const { return static_cast<int>(nodes_.size()); }
  int root() const { return size() - 1; }
  const Node& node(int n) const { return nodes_[static_cast<std::size_t>(n)]; }  // operands before their parents
  int number_of(const Expr& e) const { return numbers_.at(e.get()); }
  const Region& region(int r) const { return regions_[static_cast<std::size_t>(r)]; }
  int regions() const { return static_cast<int>(regions_.size()); }

 private:
  void place_nodes();
  void place_operands(int n, std::vector<std::vector<int>>& uses);
  int branch(int condition, int parent, bool negated);
  int common(std::vector<int> regions);
  bool is_within(int inner, int outer) const;
  bool are_all(int r, int q) const;
  int meet(int a, int b) const;

  std::vector<Node> nodes_;
  std::unordered_map<const ExprNode*, int> numbers_;
  std::vector<Region> regions_;
  std::map<std::tuple<int, int, bool>, int> branches_;  // by condition, parent, negated
};

}  // namespace loopgrad::ir
