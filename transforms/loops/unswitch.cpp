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

std::set<ir::Symbol> iterators_in(const Stmt& s) {
  std::set<ir::Symbol> result;
  ir::walk_stmts(s, [&](const Stmt& child) {
    if (const auto* loop = child.as<ir::For>()) result.insert(loop->iterator);
    if (const auto* loop = child.as<ir::While>()) result.insert(loop->iterator);
  });
  return result;
}

/// Conditions that are the same all over a nest.
class FixedConditions {
 public:
  explicit FixedConditions(const Stmt& nest) : inside_(iterators_in(nest)) {}

  /// Whether it is one; then it is among `all`, once.
  bool note(const Expr& condition) {
    const bool is_fixed = host_knows(condition) &&
                          std::none_of(inside_.begin(), inside_.end(),
                                       [&](const ir::Symbol& iterator) { return mentions(condition, iterator); });
    const auto same = [&](const Expr& other) { return ir::equal(other, condition); };
    if (is_fixed && std::none_of(all.begin(), all.end(), same)) all.push_back(condition);
    return is_fixed;
  }
  void note_selects(const Stmt& s) {
    ir::walk(
        s, [](const Stmt&) {},
        [&](const Expr& e) {
          if (const auto* choice = e.as<ir::Select>()) note(choice->condition);
        });
  }

  std::vector<Expr> all;

 private:
  const std::set<ir::Symbol> inside_;
};

/// What the selects and branches of an innermost loop ask; none where it has other branches. Of several conditions
/// those on sizes, which most often hold all of them.
std::vector<Expr> conditions_of_row(const ir::Program& program, const Stmt& loop, const Stmt& body) {
  FixedConditions conditions(loop);
  bool is_row = true;
  ir::walk_stmts(body, [&](const Stmt& s) {
    const auto* branch = s.as<ir::If>();
    is_row &= branch ? conditions.note(branch->condition)
                     : s.kind() == ir::Kind::Block || s.kind() == ir::Kind::Assign || s.kind() == ir::Kind::Reduce ||
                           s.kind() == ir::Kind::Allocate;
  });
  conditions.note_selects(body);
  if (!is_row) return {};
  const std::set<ir::Symbol> sizes(program.sizes.begin(), program.sizes.end());
  const auto is_of_others = [&](const Expr& condition) {
    bool others = false;
    ir::walk(condition, [&](const Expr& e) {
      const auto* v = e.as<ir::Var>();
      others |= v && !sizes.count(v->symbol);
    });
    return others;
  };
  if (conditions.all.size() > 1) std::erase_if(conditions.all, is_of_others);
  return conditions.all;
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

Stmt choosing(const Stmt& nest, const std::vector<Expr>& conditions, bool hold) {
  class Chooser final : public ir::Rewriter {
   public:
    Chooser(const std::vector<Expr>& conditions, bool hold) : conditions_(conditions), hold_(hold) {}
    Expr rewrite(const Expr& e) override {
      auto* choice = e.as<ir::Select>();
      if (!choice || !is_known(choice->condition)) return rewrite_children(e);
      return rewrite(hold_ ? choice->a : choice->b);
    }
    Stmt rewrite(const Stmt& s) override {
      auto* branch = s.as<ir::If>();
      if (!branch || !is_known(branch->condition)) return rewrite_children(s);
      if (hold_) return rewrite(branch->then_body);
      return branch->else_body ? rewrite(branch->else_body) : ir::block({});
    }

   private:
    bool is_known(const Expr& condition) const {
      return std::any_of(conditions_.begin(), conditions_.end(),
                         [&](const Expr& known) { return ir::equal(known, condition); });
    }
    const std::vector<Expr>& conditions_;
    bool hold_;
  };
  return Chooser(conditions, hold).rewrite(nest);
}

// Two nests: one for when all conditions hold, and one for when the only one does not, or as it was.
Stmt both(const Stmt& nest, const std::vector<Expr>& conditions) {
  Expr all;
  for (const Expr& condition : conditions) all = ir::both(all, condition);
  const Stmt otherwise = conditions.size() == 1 ? choosing(nest, conditions, false) : nest;
  return ir::if_then(all, choosing(nest, conditions, true), ir::with_fresh_names(otherwise), nest->location);
}

}  // namespace

ir::Program unswitch_rows(const ir::Program& program) {
  return ir::with_body(program, ir::rewrite(program.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
                         auto* loop = s.as<ir::For>();
                         if (!loop) return std::nullopt;
                         const std::vector<Expr> conditions = conditions_of_row(program, s, loop->body);
                         return conditions.empty() ? std::nullopt : std::optional(both(s, conditions));
                       }));
}

ir::Program unswitch_kernels(const ir::Program& program) {
  return ir::with_body(program, ir::rewrite(program.body, {}, [](const Stmt& s) -> std::optional<Stmt> {
                         if (s.kind() == ir::Kind::Contraction) return s;
                         if (!is_parallel_loop(s)) return std::nullopt;
                         FixedConditions conditions(s);
                         conditions.note_selects(s);
                         const bool decides = conditions.all.size() == 1 && decides_about_loads(s, conditions.all[0]);
                         return decides ? both(s, conditions.all) : s;
                       }));
}

}  // namespace loopgrad::transforms
