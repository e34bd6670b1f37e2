#include "transforms/storage/contract_levels.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/storage/level_uses.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

// A nest over levels that assigns a constant to elements of the array and does nothing else.
bool is_fill(const LevelUse& use, const ir::Array& array, std::size_t dimension) {
  const Stmt nest = use.outermost();
  const auto& levels = *nest.as<ir::For>();
  if (ir::has_load(levels.lower) || ir::has_load(levels.upper)) return false;
  for (const Stmt& s : use.path) {
    if (auto* branch = s.as<ir::If>(); branch && (ir::has_load(branch->condition) || branch->else_body)) return false;
    if (s.same_as(nest)) break;
  }
  const auto all = leaves(nest);
  return std::all_of(all.begin(), all.end(), [&](const Stmt& leaf) {
    auto* assign = leaf.as<ir::Assign>();
    return assign && assign->array == array && ir::equal(assign->indices[dimension], ir::var(levels.iterator)) &&
           (assign->value.as<ir::FloatConst>() || assign->value.as<ir::IntConst>());
  });
}

class Contraction {
 public:
  Contraction(const ir::Program& program, const Stmt& scope, std::size_t dimension, std::int64_t most_in_place)
      : program_(program),
        scope_(scope),
        array_(scope.as<ir::Allocate>()->array),
        dimension_(dimension),
        most_in_place_(most_in_place) {}

  bool is_legal() {
    const auto uses = level_uses(scope_.as<ir::Allocate>()->body, array_, dimension_);
    const auto window = uses ? level_window(*uses) : std::nullopt;
    if (!window || !saves(*window)) return false;
    // Steps are counted by sizes, which are not negative.
    const Expr steps = window->steps().upper - window->steps().lower;
    if (!is_never_negative(program_, steps)) return false;
    window_ = *window;
    if (is_legal(*uses)) {
      // Without a single step, the first step's levels and the last one's are one apart.
      const bool always_steps = is_never_negative(program_, steps - ir::int_const(1));
      if (always_steps || !used_after_ || (!used_before_ && fills_.empty())) {
        in_place_ = leaving_level_makes_place(*uses);
        return true;
      }
    }
    // Or what comes after the loop is one step more: without a single step the levels are those of the first, and with
    // one, nothing before has used the level that enters.
    goes_on_ = true;
    if (!is_legal(*uses) || !fills_.empty()) return false;
    in_place_ = leaving_level_makes_place(*uses);
    return true;
  }

  Stmt build() const {
    const auto& scope = *scope_.as<ir::Allocate>();
    std::vector<Expr> shape = array_->shape;
    shape[dimension_] = ir::int_const(places());
    const ir::Array now = ir::make_array(array_->name, array_->type, shape, array_->role, array_->location);
    return ir::allocate(now, Folder(*this, now).rewrite(scope.body), scope_->location);
  }

  std::string remark() const {
    return fmt::format("'{}' keeps {} of its levels in dimension {}: loop '{}' uses no others at a time", array_->name,
                       places(), dimension_, window_.steps().iterator.name);
  }

 private:
  class Folder final : public ir::Rewriter {
   public:
    Folder(const Contraction& owner, ir::Array now) : owner_(owner), now_(std::move(now)) {}
    using Rewriter::rewrite;

    Expr rewrite(const Expr& e) override {
      auto* load = e.as<ir::Load>();
      if (!load || load->array != owner_.array_) return rewrite_children(e);
      return ir::load(now_, folded(load->indices), load->location);
    }

    Stmt rewrite(const Stmt& s) override {
      if (auto* assign = s.as<ir::Assign>(); assign && assign->array == owner_.array_)
        return ir::assign(now_, folded(assign->indices), rewrite(assign->value), assign->location);
      if (auto* sum = s.as<ir::Reduce>(); sum && sum->array == owner_.array_)
        return ir::reduce_like(*sum, now_, folded(sum->indices), rewrite(sum->value));
      if (s.same_as(owner_.window_.loop)) return steps(*s.as<ir::For>());
      for (const LevelUse& fill : owner_.fills_)
        if (s.same_as(fill.outermost())) return first_levels(*s.as<ir::For>());
      return rewrite_children(s);
    }

   private:
    std::vector<Expr> folded(const std::vector<Expr>& indices) {
      std::vector<Expr> result;
      for (const Expr& index : indices) result.push_back(rewrite(index));
      Expr& level = result[owner_.dimension_];
      const std::int64_t places = owner_.places();
      ir::LinearForm form = linear_form(level);
      form.constant = (form.constant % places + places) % places;  // t + 2 is in the place of t when there are two
      level = simplify_indices(ir::binary(BinaryOp::Mod, to_expr(form), ir::int_const(places)));
      return result;
    }

    Stmt first_levels(const ir::For& fill) {
      const LevelWindow& window = owner_.window_;
      const Expr begin = window.first() + ir::int_const(window.least);
      const Expr end = window.first() + ir::int_const(window.most + 1);
      return ir::for_loop(fill.iterator, simplify_indices(ir::binary(BinaryOp::Max, fill.lower, begin)),
                          simplify_indices(ir::binary(BinaryOp::Min, fill.upper, end)), rewrite(fill.body), fill.mode,
                          fill.location);
    }

    Stmt steps(const ir::For& loop) {
      std::vector<Stmt> body;
      for (const LevelUse& fill : owner_.fills_) body.push_back(entering_level(fill, loop));
      body.push_back(rewrite(loop.body));
      return with_body(loop, ir::block(std::move(body)));
    }

    // What the fill does for the level that comes into use, unless it has been done before the loop.
    Stmt entering_level(const LevelUse& fill, const ir::For& loop) {
      const auto& levels = *fill.outermost().as<ir::For>();
      const LevelWindow& window = owner_.window_;
      const Expr level = simplify_indices(ir::var(loop.iterator) + ir::int_const(window.entering()));
      Expr condition = ir::binary(BinaryOp::Ne, ir::var(loop.iterator), simplify_indices(window.first()));
      auto demand = [&](const Expr& more) { condition = ir::binary(BinaryOp::And, condition, more); };
      demand(ir::binary(BinaryOp::Ge, level, levels.lower));
      demand(ir::binary(BinaryOp::Lt, level, levels.upper));
      for (const Stmt& s : fill.path) {
        if (s.same_as(fill.outermost())) break;
        if (auto* branch = s.as<ir::If>()) demand(branch->condition);
      }
      const Stmt body = ir::with_fresh_names(ir::substitute(levels.body, {{levels.iterator, level}}));
      return ir::if_then(condition, rewrite(body), {}, levels.location);
    }

    const Contraction& owner_;
    ir::Array now_;
  };

  bool saves(const LevelWindow& window) const {
    const auto extent = ir::as_int(array_->shape[dimension_]);
    return !extent || *extent > window.levels();
  }

  bool is_legal(const std::vector<LevelUse>& uses) {
    used_before_ = used_after_ = false;
    fills_.clear();
    bool before = true;
    for (const LevelUse& use : uses) {
      if (use.outermost() && use.outermost().same_as(window_.loop)) {
        if (!distance(use.index, ir::var(window_.steps().iterator))) return false;
        before = false;
      } else if (!outside(use, before)) {
        return false;
      }
    }
    return true;
  }

  // A use before or after the loop: of levels that its first or last step uses too, or a fill.
  bool outside(const LevelUse& use, bool before) {
    const auto range = levels_of(use);
    const Expr step = before ? window_.first() : last_step();
    const auto low = range ? distance(range->first, step) : std::nullopt;
    const auto high = range ? distance(range->second, step) : std::nullopt;
    if (low && high && *low >= window_.least && *high <= window_.most) {
      const std::int64_t edge = before ? window_.entering() : window_.leaving();
      (before ? used_before_ : used_after_) |= *low <= edge && edge <= *high;
      return true;
    }
    if (!before || !use.outermost() || !is_fill(use, array_, dimension_)) return false;
    const bool known = std::any_of(fills_.begin(), fills_.end(),
                                   [&](const LevelUse& fill) { return fill.outermost().same_as(use.outermost()); });
    if (!known) fills_.push_back(use);
    return true;
  }

  // How many levels have places of their own.
  std::int64_t places() const { return window_.levels() - (in_place_ ? 1 : 0); }

  // Whether each element of the level that comes into use may replace that of the level that goes out of use: one
  // assignment, once per element and step, is the only one to read the latter, and nothing touches the former before.
  bool leaving_level_makes_place(const std::vector<LevelUse>& uses) const {
    if (window_.levels() < 2 || window_.levels() > most_in_place_ || !fills_.empty() || used_before_ ||
        (used_after_ && !goes_on_))
      return false;
    std::vector<const LevelUse*> step, after;
    for (const LevelUse& use : uses) {
      if (in_step(use)) step.push_back(&use);
      else if (!step.empty()) after.push_back(&use);
    }
    return takes_place(step) && (!goes_on_ || takes_place(after));
  }

  // The same for the uses of a step, or for those of what comes after the loop as one step more.
  bool takes_place(const std::vector<const LevelUse*>& uses) const {
    const std::pair entering{window_.entering(), window_.entering()}, leaving{window_.leaving(), window_.leaving()};
    const LevelUse* taker = nullptr;
    for (const LevelUse* use : uses) {
      const auto levels = levels_used(*use);
      if (levels.first > leaving.first || levels.second < leaving.first) continue;
      const LevelUse* store = use->stores ? nullptr : store_of(*use, uses);
      if (!store || levels != leaving || levels_used(*store) != entering || !same_element(*store, *use)) return false;
      if (taker && !taker->path.back().same_as(store->path.back())) return false;
      taker = store;
    }
    if (!taker) return true;
    if (!once_per_element(*taker)) return false;
    bool taken = false;
    for (const LevelUse* use : uses) {
      taken |= use == taker;
      const auto levels = levels_used(*use);
      if (use == taker || levels.first > entering.first || levels.second < entering.first) continue;
      const bool later = taken && !use->path.back().same_as(taker->path.back());
      if (!later || (part_of_step(*use).same_as(part_of_step(*taker)) && !same_element(*use, *taker))) return false;
    }
    return true;
  }

  bool in_step(const LevelUse& use) const {
    const Stmt loop = use.outermost();
    return loop && loop.same_as(window_.loop);
  }

  // The lowest and the highest level, counted from the step, or from the last one where the use comes after the loop.
  // `is_legal` has seen that they are known.
  std::pair<std::int64_t, std::int64_t> levels_used(const LevelUse& use) const {
    if (in_step(use)) {
      const std::int64_t level = *distance(use.index, ir::var(window_.steps().iterator));
      return {level, level};
    }
    const auto range = *levels_of(use);
    return {*distance(range.first, last_step()), *distance(range.second, last_step())};
  }

  Expr last_step() const {
    return goes_on_ ? window_.last() + ir::int_const(window_.backward() ? -1 : 1) : window_.last();
  }

  // The assignment to the array whose value a use is part of.
  const LevelUse* store_of(const LevelUse& use, const std::vector<const LevelUse*>& uses) const {
    auto* assign = use.path.back().as<ir::Assign>();
    if (!assign || assign->array != array_) return nullptr;
    const auto store = std::find_if(uses.begin(), uses.end(), [&](const LevelUse* other) {
      return other->stores && other->path.back().same_as(use.path.back());
    });
    return store == uses.end() ? nullptr : *store;
  }

  bool same_element(const LevelUse& a, const LevelUse& b) const {
    for (std::size_t d = 0; d < a.indices.size(); ++d)
      if (d != dimension_ && !ir::equal(a.indices[d], b.indices[d])) return false;
    return true;
  }

  // Every loop of a step around the store moves an index of its own.
  bool once_per_element(const LevelUse& store) const {
    std::vector<bool> taken(store.indices.size(), false);
    for (const Stmt& s : store.path) {
      auto* loop = s.as<ir::For>();
      if (s.kind() == ir::Kind::While) return false;
      if (!loop || s.same_as(window_.loop)) continue;
      std::size_t d = 0;
      while (d < taken.size() && (d == dimension_ || taken[d] || !distance(store.indices[d], ir::var(loop->iterator))))
        ++d;
      if (d == taken.size()) return false;
      taken[d] = true;
    }
    return true;
  }

  // The statement of the step's body, or after the loop, that a use is in.
  Stmt part_of_step(const LevelUse& use) const {
    auto at = use.path.begin();
    while (at->kind() == ir::Kind::Block || at->kind() == ir::Kind::Allocate || at->same_as(window_.loop)) ++at;
    return *at;
  }

  // The lowest and the highest level of a use: its index is fixed, or the iterator of a loop around it.
  static std::optional<std::pair<Expr, Expr>> levels_of(const LevelUse& use) {
    if (ir::has_load(use.index)) return std::nullopt;
    for (const Stmt& s : use.path) {
      auto* loop = s.as<ir::For>();
      if (!loop || !mentions(use.index, loop->iterator)) continue;
      const auto offset = distance(use.index, ir::var(loop->iterator));
      if (!offset || ir::has_load(loop->lower) || ir::has_load(loop->upper)) return std::nullopt;
      return std::pair{loop->lower + ir::int_const(*offset), loop->upper + ir::int_const(*offset - 1)};
    }
    return std::pair{use.index, use.index};
  }

  const ir::Program& program_;
  const Stmt& scope_;
  const ir::Array& array_;
  std::size_t dimension_;
  std::int64_t most_in_place_;  // levels of a window of which one may take the place of another
  LevelWindow window_;
  std::vector<LevelUse> fills_;  // one use of each
  bool used_before_ = false, used_after_ = false, in_place_ = false;
  bool goes_on_ = false;  // what comes after the loop uses the levels of one step more
};

}  // namespace

ir::Program contract_levels(const ir::Program& program, PassContext& context) {
  const std::int64_t in_place = context.options.machine.most_in_place;
  const std::int64_t most_in_place = in_place ? in_place : std::numeric_limits<std::int64_t>::max();
  if (!ir::aliased_arrays(program).empty()) return program;
  std::function<Stmt(const Stmt&)> visit = [&](const Stmt& body) {
    return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      auto* scope = s.as<ir::Allocate>();
      if (!scope) return std::nullopt;
      for (std::size_t d = 0; scope->array->shape.size() > 1 && d < scope->array->shape.size(); ++d) {
        Contraction contraction(program, s, d, most_in_place);
        if (!contraction.is_legal()) continue;
        context.report.remarks.push_back({contraction.remark(), scope->array->location});
        return visit(contraction.build());
      }
      return std::nullopt;
    });
  };
  return ir::with_body(program, visit(program.body));
}

}  // namespace loopgrad::transforms
