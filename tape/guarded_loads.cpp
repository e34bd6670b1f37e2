#include "tape/guarded_loads.h"

namespace loopgrad::tape {
namespace {

using ir::Expr;
using ir::Stmt;

Expr negation(const Expr& e) { return ir::unary(ir::UnaryOp::Not, e); }

class GuardTracker final : public ir::Rewriter {
 public:
  GuardTracker(const GuardedLoad& f, Expr guard) : f_(f), guard_(std::move(guard)) {}

  Expr rewrite(const Expr& e) override {
    if (e.kind() == ir::Kind::Load) {
      if (const auto replacement = f_(e, guard_)) return *replacement;
    } else if (const auto* s = e.as<ir::Select>()) {
      const Expr condition = rewrite(s->condition);
      const Expr a = under(s->condition, s->a);
      return ir::select(condition, a, under(negation(s->condition), s->b));
    } else if (const auto* b = e.as<ir::Binary>(); b && (b->op == ir::BinaryOp::And || b->op == ir::BinaryOp::Or)) {
      const Expr a = rewrite(b->a);
      return ir::binary(b->op, a, under(b->op == ir::BinaryOp::And ? b->a : negation(b->a), b->b));
    }
    return rewrite_children(e);
  }

  Stmt rewrite(const Stmt& s) override {
    const auto* branch = s.as<ir::If>();
    if (!branch) return rewrite_children(s);
    const Expr condition = rewrite(branch->condition);
    const Stmt then_body = under(branch->condition, branch->then_body);
    const Stmt else_body = branch->else_body ? under(negation(branch->condition), branch->else_body) : Stmt{};
    return ir::if_then(condition, then_body, else_body, branch->location);
  }

 private:
  template <class Node>
  Node under(const Expr& condition, const Node& node) {
    const Expr outer = guard_;
    guard_ = both(outer, condition);
    Node result = rewrite(node);
    guard_ = outer;
    return result;
  }

  const GuardedLoad& f_;
  Expr guard_;
};

}  // namespace

Expr rewrite_loads(const Expr& e, const GuardedLoad& f, const Expr& guard) { return GuardTracker(f, guard).rewrite(e); }
Stmt rewrite_loads(const Stmt& s, const GuardedLoad& f, const Expr& guard) { return GuardTracker(f, guard).rewrite(s); }

}  // namespace loopgrad::tape
