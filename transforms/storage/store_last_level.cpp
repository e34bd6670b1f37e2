#include "transforms/storage/store_last_level.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/peel.h"
#include "transforms/storage/level_uses.h"
#include "transforms/storage/storage_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::size_t most_statements = 12;

bool surely_at_most(const Expr& a, const Expr& b) {
  const auto ahead = distance(b, a);
  return ahead && *ahead >= 0;
}

// One loop over steps, and the nest after it that copies a level.
class LastLevel {
 public:
  LastLevel(const ir::Program& program, const std::vector<Stmt>& statements, std::size_t loop, std::size_t copy)
      : program_(program), statements_(statements), loop_(statements[loop]), copy_(statements[copy]) {}

  bool is_legal() {
    return steps().mode == ir::LoopMode::Forward && !ir::has_load(steps().lower) && !ir::has_load(steps().upper) &&
           leaves(steps().body).size() <= most_statements && !ir::uses_stack(loop_) && !has_contraction(loop_) &&
           is_copy_of_last_level() && is_not_read_later() && target_is_new() && uses_allow_it();
  }

  ir::Program build() const {
    const Expr any = ir::binary(BinaryOp::Lt, steps().lower, steps().upper);
    const Expr none = ir::binary(BinaryOp::Le, steps().upper, steps().lower);
    return ir::with_body(
        program_, ir::rewrite(program_.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
          if (s.same_as(copy_)) return ir::if_then(none, without_steps(), {}, copy_->location);
          if (const Stmt fill = shorter_border_fill(s)) return fill;
          if (!s.same_as(loop_) && !fills_.count(s.get())) return std::nullopt;
          const Stmt to_target = redirected(s);
          const Stmt last = peel_last(*to_target.as<ir::For>())->last;
          return ir::block({peel_last(*s.as<ir::For>())->before, ir::if_then(any, last, {}, s->location)});
        }));
  }

  void note(PassContext& context) const {
    note_storage(context, tape_, Storage::Alias, fmt::format("last level in {}", target_->name),
                 fmt::format("only the copy reads what the last step of '{}' stores", steps().iterator.name),
                 copy_->location);
  }

 private:
  const ir::For& steps() const { return *loop_.as<ir::For>(); }
  Expr last_level() const { return steps().upper + ir::int_const(offset_ - 1); }

  // target[i, ..] = tape[last, i + constant, ..], for all of the target; or a select of that where there are steps.
  bool is_copy_of_last_level() {
    const auto nest = element_nest(copy_);
    if (!nest) return false;
    target_ = nest->assign->array;
    const std::vector<Expr>& indices = nest->assign->indices;
    const auto range = range_of(nest->loops, indices);
    if (!range || !is_whole(*range, target_->shape)) return false;
    Expr value = nest->assign->value;
    if (auto* choice = value.as<ir::Select>()) {
      if (!ir::equal(choice->condition, ir::binary(BinaryOp::Lt, steps().lower, steps().upper))) return false;
      value = choice->a;
    }
    auto* source = value.as<ir::Load>();
    if (!source || source->array->role != ir::ArrayRole::Tape || source->array->type != target_->type) return false;
    if (source->indices.size() != indices.size() + 1) return false;
    tape_ = source->array;
    const auto offset = distance(source->indices[0], steps().upper);
    if (!offset) return false;
    offset_ = *offset + 1;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const auto shift = distance(source->indices[d + 1], indices[d]);
      if (!shift) return false;
      shifts_.push_back(*shift);
    }
    return true;
  }

  bool is_not_read_later() const {
    return std::any_of(program_.facts.begin(), program_.facts.end(), [&](const ir::Fact& fact) {
      return fact.kind == ir::FactKind::ReadUpTo && fact.array == tape_ &&
             surely_at_most(fact.upper + ir::int_const(1), last_level());
    });
  }

  bool target_is_new() const {
    const auto aliased = ir::aliased_arrays(program_);
    if (target_->role == ir::ArrayRole::Local || aliased.count(target_) || aliased.count(tape_)) return false;
    for (const Stmt& s : statements_) {
      if (s.same_as(copy_)) return true;
      if (uses(s, target_)) return false;
    }
    return false;
  }

  enum class Place { In, Outside, Unknown };

  // Where the elements of a store lie, as to the box that is copied.
  Place place_of(const LevelUse& use) const {
    bool inside = true;
    for (std::size_t d = 0; d < shifts_.size(); ++d) {
      const Expr lower = ir::int_const(shifts_[d]), upper = target_->shape[d] + lower;
      const auto values = values_of(use.indices[d + 1], use.path);
      if (values && (surely_at_most(values->upper, lower) || surely_at_most(upper, values->lower)))
        return Place::Outside;
      // A right program stays inside of the tape.
      const bool from = shifts_[d] == 0 || (values && surely_at_most(lower, values->lower));
      const bool to = same_value(upper, tape_->shape[d + 1]) || (values && surely_at_most(values->upper, upper));
      inside &= from && to;
    }
    return inside ? Place::In : Place::Unknown;
  }

  bool uses_allow_it() {
    const auto all = level_uses(program_.body, tape_, 0);
    if (!all) return false;
    bool found = false, after = false;
    for (const LevelUse& use : *all) {
      const Stmt outermost = use.outermost();
      if (outermost && outermost.same_as(copy_)) continue;
      if (outermost && outermost.same_as(loop_)) {
        after = true;
        if (!is_allowed_in_step(use)) return false;
        found |= use.stores;
      } else if (after || !is_allowed_before(use)) {
        return false;
      }
    }
    return found;
  }

  bool is_allowed_in_step(const LevelUse& use) {
    const auto level = distance(use.index, ir::var(steps().iterator));
    if (!level || *level > offset_) return false;
    if (*level < offset_) return true;
    return use.stores && is_redirected(use, place_of(use));
  }

  bool is_redirected(const LevelUse& store, Place place) {
    if (place == Place::In) redirected_.insert(store.path.back().get());
    return place != Place::Unknown && store.path.back().as<ir::Assign>();
  }

  bool is_allowed_before(const LevelUse& use) {
    const Expr first = steps().lower + ir::int_const(offset_);  // that a step writes
    const auto levels = values_of(use.index, use.path);
    if (levels && surely_at_most(levels->upper, first)) return true;
    if (!use.stores) return false;
    const Place place = place_of(use);
    const Stmt nest = use.outermost();
    if (place == Place::Outside) {
      if (nest) note_border_fill(use, *nest.as<ir::For>());
      return true;
    }
    if (!nest || !is_redirected(use, place)) return false;
    const ir::For& fill = *nest.as<ir::For>();
    const bool same_steps = ir::equal(fill.lower, steps().lower) && ir::equal(fill.upper, steps().upper);
    const bool ends_last = fill.mode == ir::LoopMode::Forward;  // what is peeled is the last level
    if (!same_steps || fill.at_most || !ends_last || !peel_last(fill) ||
        distance(use.index, ir::var(fill.iterator)) != offset_)
      return false;
    fills_.insert(nest.get());
    return true;
  }

  void note_border_fill(const LevelUse& use, const ir::For& fill) {
    const auto offset = distance(use.index, ir::var(fill.iterator));
    if (!offset || fill.at_most || !surely_at_most(last_level(), fill.upper + ir::int_const(*offset - 1))) return;
    BorderFill& own = border_fills_[use.outermost().get()];
    ++own.stores;
    own.end = simplify_indices(last_level() - ir::int_const(*offset));
    own.is_one_level &= own.offset.value_or(*offset) == *offset;
    own.offset = offset;
  }

  // What is left of a nest that only stores what nobody copies, on the last level and maybe after it, and before; null
  // for other nests. Levels that are not copied are not read then either.
  Stmt shorter_border_fill(const Stmt& s) const {
    const auto fill = border_fills_.find(s.get());
    if (fill == border_fills_.end() || !fill->second.is_one_level || fill->second.stores != leaves(s).size()) return {};
    const ir::For& loop = *s.as<ir::For>();
    return ir::for_loop(loop.iterator, loop.lower, fill->second.end, loop.body, loop.mode, loop.location);
  }

  // With the target in place of the last level.
  Stmt redirected(const Stmt& loop) const {
    return ir::rewrite(loop, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      if (!redirected_.count(s.get())) return std::nullopt;
      const ir::Assign& store = *s.as<ir::Assign>();
      std::vector<Expr> indices;
      for (std::size_t d = 0; d < shifts_.size(); ++d)
        indices.push_back(store.indices[d + 1] - ir::int_const(shifts_[d]));
      return ir::assign(target_, std::move(indices), store.value, store.location);
    });
  }

  Stmt without_steps() const {
    return ir::rewrite(copy_, [](const Expr& e) -> std::optional<Expr> {
      auto* choice = e.as<ir::Select>();
      return choice ? std::optional(choice->b) : std::nullopt;
    });
  }

  // Stores of a nest outside of the box, each on level `offset` after the iterator.
  struct BorderFill {
    std::size_t stores = 0;
    Expr end;
    std::optional<std::int64_t> offset;
    bool is_one_level = true;
  };

  const ir::Program& program_;
  const std::vector<Stmt>& statements_;
  const Stmt loop_, copy_;
  ir::Array target_, tape_;
  std::int64_t offset_ = 0;           // a step writes level t + offset
  std::vector<std::int64_t> shifts_;  // from indices of the target to those of the tape
  StmtSet redirected_;                // stores that are to the target in the last step
  StmtSet fills_;                     // nests outside of the loop with such stores
  std::map<const ir::StmtNode*, BorderFill> border_fills_;
};

std::optional<ir::Program> stored_once(const ir::Program& program, PassContext& context) {
  const std::vector<Stmt> statements = top_level(program.body);
  for (std::size_t loop = 0; loop < statements.size(); ++loop) {
    if (!statements[loop].as<ir::For>()) continue;
    for (std::size_t copy = loop + 1; copy < statements.size(); ++copy) {
      if (!statements[copy].as<ir::For>()) continue;
      LastLevel last(program, statements, loop, copy);
      if (!last.is_legal()) continue;
      last.note(context);
      return last.build();
    }
  }
  return std::nullopt;
}

}  // namespace

ir::Program store_last_level(const ir::Program& program, PassContext& context) {
  ir::Program result = program;
  while (auto stored = stored_once(result, context)) result = *stored;
  return result;
}

}  // namespace loopgrad::transforms
