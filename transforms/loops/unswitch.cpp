#include "transforms/loops/unswitch.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loop_builder.h"

#include <algorithm>
#include <set>

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

std::set<ir::Symbol> iterators_in(const Stmt& s) {
  std::set<ir::Symbol> result;
  ir::walk_stmts(s, [&](const Stmt& child) {
    if (const auto* loop = child.as<ir::For>()) result.insert(loop->iterator);
    if (const auto* loop = child.as<ir::While>()) result.insert(loop->iterator);
  });
  return result;
}

// The one condition that is the same all over the nest and that selects in it ask; null when there is none or more.
Expr only_condition(const Stmt& nest) {
  const std::set<ir::Symbol> inside = iterators_in(nest);
  auto is_fixed = [&](const Expr& condition) {
    return host_knows(condition) && std::none_of(inside.begin(), inside.end(), [&](const ir::Symbol& iterator) {
             return mentions(condition, iterator);
           });
  };
  Expr result;
  bool other = false;
  ir::walk(
      nest, [](const Stmt&) {},
      [&](const Expr& e) {
        auto* choice = e.as<ir::Select>();
        if (!choice || !is_fixed(choice->condition)) return;
        other |= result && !ir::equal(result, choice->condition);
        result = choice->condition;
      });
  return other ? Expr() : result;
}

bool decides_about_loads(const Stmt& nest, const Expr& condition) {
  bool decides = false;
  ir::walk(
      nest, [](const Stmt&) {},
      [&](const Expr& e) {
        auto* choice = e.as<ir::Select>();
        decides |=
            choice && ir::equal(choice->condition, condition) && (ir::has_load(choice->a) || ir::has_load(choice->b));
      });
  return decides;
}

Stmt choosing(const Stmt& nest, const Expr& condition, bool holds) {
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
  return Chooser(condition, holds).rewrite(nest);
}

// Two nests, one for each value of the condition.
Stmt both(const Stmt& nest, const Expr& condition) {
  return ir::if_then(condition, choosing(nest, condition, true), ir::with_fresh_names(choosing(nest, condition, false)),
                     nest->location);
}

}  // namespace

ir::Program unswitch_rows(const ir::Program& program) {
  return ir::with_body(program, ir::rewrite(program.body, {}, [](const Stmt& s) -> std::optional<Stmt> {
                         auto* loop = s.as<ir::For>();
                         if (!loop || !is_straight_line(loop->body)) return std::nullopt;
                         const Expr condition = only_condition(s);
                         return condition ? std::optional(both(s, condition)) : std::nullopt;
                       }));
}

ir::Program unswitch_kernels(const ir::Program& program) {
  return ir::with_body(program, ir::rewrite(program.body, {}, [](const Stmt& s) -> std::optional<Stmt> {
                         if (s.kind() == ir::Kind::Contraction) return s;
                         if (!is_parallel_loop(s)) return std::nullopt;
                         const Expr condition = only_condition(s);
                         return condition && decides_about_loads(s, condition) ? both(s, condition) : s;
                       }));
}

}  // namespace loopgrad::transforms
