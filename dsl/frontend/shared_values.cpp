#include "dsl/frontend/shared_values.h"

#include "dsl/ir/rewriter.h"

#include <fmt/format.h>

#include <map>

namespace loopgrad::ir {

namespace {

constexpr double least_tree = 4;  // a smaller value is as easily computed again

struct Use {
  double tree = 0;       // nodes of the value written out; a double, because it grows exponentially
  int parents = 0;       // distinct nodes that have it as an operand
  bool certain = false;  // evaluated whenever the whole expression is
};

class Counter {
 public:
  explicit Counter(const Expr& root) {
    count(root);
    mark_certain(root);
  }
  const Use& of(const Expr& e) const { return uses_.at(e.get()); }
  bool deserves_name(const Expr& e) const {
    const Use& use = of(e);
    return use.parents > 1 && use.certain && use.tree >= least_tree && is_float(e.type());
  }

 private:
  double count(const Expr& e) {
    auto [found, fresh] = uses_.try_emplace(e.get());
    if (!fresh) return found->second.tree;
    double tree = 1;
    visit(e, [&](const auto& node) {
      for_each_child(node, [&](const Expr& child) {
        tree += count(child);
        ++uses_[child.get()].parents;
      });
    });
    return uses_[e.get()].tree = tree;
  }

  void mark_certain(const Expr& e) {
    Use& use = uses_[e.get()];
    if (use.certain) return;
    use.certain = true;
    if (auto* choice = e.as<Select>()) return mark_certain(choice->condition);
    if (auto* both = e.as<Binary>(); both && (both->op == BinaryOp::And || both->op == BinaryOp::Or)) {
      return mark_certain(both->a);
    }
    visit(e, [&](const auto& node) { for_each_child(node, [&](const Expr& child) { mark_certain(child); }); });
  }

  std::map<const ExprNode*, Use> uses_;
};

class Splitter final : public Rewriter {
 public:
  Splitter(const Counter& counter, SourceLocation where, std::vector<SharedValues::Local>& locals)
      : counter_(counter), where_(where), locals_(locals) {}

  using Rewriter::rewrite;
  Expr rewrite(const Expr& e) override {
    auto known = done_.find(e.get());
    if (known != done_.end()) return known->second;
    Expr result = rewrite_children(e);
    if (counter_.deserves_name(e)) {
      Array local = make_array(fmt::format("value{}", locals_.size()), e.type(), {}, ArrayRole::Local, where_);
      locals_.push_back({local, result});
      result = load(local, {}, where_);
    }
    done_.emplace(e.get(), result);
    return result;
  }

 private:
  const Counter& counter_;
  SourceLocation where_;
  std::vector<SharedValues::Local>& locals_;
  std::map<const ExprNode*, Expr> done_;
};

}  // namespace

SharedValues name_shared_values(const Expr& value, SourceLocation where, double largest_tree) {
  SharedValues split;
  Counter counter(value);
  if (counter.of(value).tree <= largest_tree) {
    split.result = value;
    return split;
  }
  Splitter splitter(counter, where, split.locals);
  split.result = splitter.rewrite(value);
  return split;
}

}  // namespace loopgrad::ir
