#include "transforms/storage/sink_fills.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/storage/level_uses.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

// A nest over levels that assigns a constant to elements of the array and does nothing else. Data that say which may
// be others by the time of a later step.
bool is_fill(const LevelUse& use, const ir::Array& array, std::size_t dimension) {
  const Stmt nest = use.outermost();
  if (!nest) return false;
  const auto& levels = *nest.as<ir::For>();
  for (const Stmt& s : use.path) {
    if (auto* branch = s.as<ir::If>(); branch && (ir::has_load(branch->condition) || branch->else_body)) return false;
    if (s.same_as(nest)) break;
  }
  bool loads = false;
  ir::walk(
      nest, [](const Stmt&) {}, [&](const Expr& e) { loads |= e.kind() == ir::Kind::Load; });
  if (loads) return false;
  const auto all = leaves(nest);
  return std::all_of(all.begin(), all.end(), [&](const Stmt& leaf) {
    auto* assign = leaf.as<ir::Assign>();
    return assign && assign->array == array && ir::equal(assign->indices[dimension], ir::var(levels.iterator)) &&
           (assign->value.as<ir::FloatConst>() || assign->value.as<ir::IntConst>());
  });
}

class Sinker {
 public:
  Sinker(const Stmt& scope, std::size_t dimension)
      : scope_(*scope.as<ir::Allocate>()), location_(scope->location), dimension_(dimension) {}

  bool is_legal(const ir::Program& program) {
    const auto uses = level_uses(scope_.body, scope_.array, dimension_);
    const auto window = uses ? level_window(*uses) : std::nullopt;
    if (!window || !is_at_top(window->loop)) return false;
    // Steps are counted by sizes, so that the last one is at most one before the first.
    if (!is_never_negative(program, window->steps().upper - window->steps().lower)) return false;
    window_ = *window;
    bool before = true;
    for (const LevelUse& use : *uses) {
      if (use.outermost() && use.outermost().same_as(window_.loop)) {
        before = false;
        if (!distance(use.index, ir::var(window_.steps().iterator))) return false;
      } else if (before && is_fill(use, scope_.array, dimension_)) {
        note_fill(use);
      } else if (!is_reached(use, before)) {
        return false;
      }
    }
    return !fills_.empty();
  }

  Stmt build() const {
    const Stmt body = ir::rewrite(scope_.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      if (s.same_as(window_.loop)) return steps();
      for (const LevelUse& fill : fills_)
        if (s.same_as(fill.outermost())) return first_levels(*s.as<ir::For>());
      return std::nullopt;
    });
    return ir::allocate(scope_.array, body, location_);
  }

 private:
  bool is_at_top(const Stmt& loop) const {
    const auto parts = top_level(scope_.body);
    return std::any_of(parts.begin(), parts.end(), [&](const Stmt& s) { return s.same_as(loop); });
  }

  void note_fill(const LevelUse& use) {
    const auto is_same = [&](const LevelUse& fill) { return fill.outermost().same_as(use.outermost()); };
    if (std::none_of(fills_.begin(), fills_.end(), is_same)) fills_.push_back(use);
  }

  // Whether what is not in the loop finds the levels filled when only the first or the last step's are.
  bool is_reached(const LevelUse& use, bool before) const {
    const auto levels = values_of(use.index, use.path);
    if (!levels) return false;
    const Expr level = window_.backward() ? levels->lower : levels->upper - ir::int_const(1);
    const Expr reached = (before ? window_.first() : window_.last()) + ir::int_const(window_.entering());
    const auto beyond = distance(level, reached);
    return beyond && (window_.backward() ? *beyond >= 0 : *beyond <= 0);
  }

  Stmt first_levels(const ir::For& fill) const {
    const Expr begin = window_.first() + ir::int_const(window_.least);
    const Expr end = window_.first() + ir::int_const(window_.most + 1);
    Expr lower = fill.lower, upper = fill.upper;
    if (window_.backward()) lower = simplify_indices(ir::binary(BinaryOp::Max, lower, begin));
    else upper = simplify_indices(ir::binary(BinaryOp::Min, upper, end));
    return ir::for_loop(fill.iterator, lower, upper, fill.body, fill.mode, fill.location);
  }

  Stmt steps() const {
    const ir::For& loop = window_.steps();
    std::vector<Stmt> body;
    for (const LevelUse& fill : fills_) body.push_back(entering_level(fill));
    body.push_back(loop.body);
    return with_body(loop, ir::block(std::move(body)));
  }

  // What the fill does for the level that comes into use, unless it has been done before the loop.
  Stmt entering_level(const LevelUse& fill) const {
    const auto& levels = *fill.outermost().as<ir::For>();
    const Expr step = ir::var(window_.steps().iterator);
    const Expr level = simplify_indices(step + ir::int_const(window_.entering()));
    Expr condition = ir::binary(BinaryOp::Ne, step, simplify_indices(window_.first()));
    auto demand = [&](const Expr& more) { condition = ir::binary(BinaryOp::And, condition, more); };
    demand(ir::binary(BinaryOp::Ge, level, levels.lower));
    demand(ir::binary(BinaryOp::Lt, level, levels.upper));
    for (const Stmt& s : fill.path) {
      if (s.same_as(fill.outermost())) break;
      if (auto* branch = s.as<ir::If>()) demand(branch->condition);
    }
    const Stmt body = ir::with_fresh_names(ir::substitute(levels.body, {{levels.iterator, level}}));
    return ir::if_then(condition, body, {}, levels.location);
  }

  const ir::Allocate& scope_;
  SourceLocation location_;
  std::size_t dimension_;
  LevelWindow window_;
  std::vector<LevelUse> fills_;  // one use of each
};

}  // namespace

Stmt sink_fills(const ir::Program& program, const Stmt& scope, std::size_t dimension) {
  Sinker sinker(scope, dimension);
  return sinker.is_legal(program) ? sinker.build() : Stmt();
}

}  // namespace loopgrad::transforms
