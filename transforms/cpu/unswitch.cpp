#include "transforms/cpu/unswitch.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "transforms/linear_form.h"
#include "transforms/nest.h"

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

bool is_straight_line(const Stmt& body) {
  bool straight = true;
  ir::walk_stmts(body, [&](const Stmt& s) {
    straight &= s.kind() == ir::Kind::Block || s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce ||
                s.kind() == ir::Kind::Allocate;
  });
  return straight;
}

bool is_fixed(const Expr& condition, const ir::Symbol& iterator) {
  return !ir::has_load(condition) && !mentions(condition, iterator);
}

// The one condition that all selects of the loop ask; null when there is none or more.
Expr only_condition(const ir::For& loop) {
  Expr result;
  bool other = false;
  ir::walk(
      loop.body, [](const Stmt&) {},
      [&](const Expr& e) {
        auto* choice = e.as<ir::Select>();
        if (!choice || !is_fixed(choice->condition, loop.iterator)) return;
        other |= result && !ir::equal(result, choice->condition);
        result = choice->condition;
      });
  return other ? Expr() : result;
}

Stmt choosing(const ir::For& loop, const Expr& condition, bool holds) {
  class Chooser final : public ir::Rewriter {
   public:
    Chooser(const Expr& condition, bool holds) : condition_(condition), holds_(holds) {}
    using Rewriter::rewrite;
    Expr rewrite(const Expr& e) override {
      auto* choice = e.as<ir::Select>();
      if (!choice || !ir::equal(choice->condition, condition_)) return rewrite_children(e);
      return rewrite(holds_ ? choice->a : choice->b);
    }

   private:
    const Expr& condition_;
    bool holds_;
  };
  return with_body(loop, Chooser(condition, holds).rewrite(loop.body));
}

}  // namespace

ir::Program unswitch(const ir::Program& program) {
  return ir::with_body(program, ir::rewrite(program.body, {}, [](const Stmt& s) -> std::optional<Stmt> {
                         auto* loop = s.as<ir::For>();
                         if (!loop || !is_straight_line(loop->body)) return std::nullopt;
                         const Expr condition = only_condition(*loop);
                         if (!condition) return std::nullopt;
                         return ir::if_then(condition, choosing(*loop, condition, true),
                                            ir::with_fresh_names(choosing(*loop, condition, false)), s->location);
                       }));
}

}  // namespace loopgrad::transforms
