#include "transforms/storage/read_levels.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "transforms/analysis/accesses.h"
#include "transforms/analysis/nest.h"
#include "transforms/storage/level_uses.h"
#include "transforms/storage/storage_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t widest_border = 4;  // as the tape has room for: see tape/tape_layout.cpp

bool is_whole_but_for_borders(const std::vector<IndexRange>& range, const std::vector<Expr>& shape) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto before = ir::as_int(range[d].lower), behind = distance(shape[d], range[d].upper);
    if (!before || !behind || *before < 0 || *behind < 0 || std::max(*before, *behind) > widest_border) return false;
  }
  return true;
}

std::vector<Expr> without_dimension(std::vector<Expr> list, std::size_t dimension) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(dimension));
  return list;
}

// `A[e] += v; tape[t, e] = A[e]`, one after the other.
struct Saved {
  Stmt update, save;
  ir::Array array, tape;
  std::vector<Expr> element, level;  // their indices
};

std::vector<Saved> saved_updates(const Stmt& nest) {
  std::vector<Saved> found;
  ir::walk_stmts(nest, [&](const Stmt& s) {
    auto* block = s.as<ir::Block>();
    for (std::size_t k = 1; block && k < block->body.size(); ++k) {
      const Stmt &update = block->body[k - 1], &save = block->body[k];
      auto* assign = save.as<ir::Assign>();
      auto* source = assign && assign->array->role == ir::ArrayRole::Tape ? assign->value.as<ir::Load>() : nullptr;
      auto* sum = update.as<ir::Reduce>();
      if (!source || source->indices.empty() || (sum ? sum->atomic : !update.as<ir::Assign>())) continue;
      for_each_store(update, [&](const ir::Array& array, const std::vector<Expr>& element) {
        if (array == source->array && ir::equal(element, source->indices))
          found.push_back({update, save, array, assign->array, element, assign->indices});
      });
    }
  });
  return found;
}

// Whether nothing else in the nest touches other elements of the array, changes that one, or touches the level.
bool is_own(const Saved& saved, const Stmt& nest) {
  int stores = 0;
  bool own = !ir::uses_stack(nest) && !has_contraction(nest);
  for (const Access& x : accesses_of(nest)) {
    own &= x.array != saved.array || ir::equal(x.indices, saved.element);
    own &= x.array != saved.tape || (x.writes && ir::equal(x.indices, saved.level));
  }
  for (const Stmt& leaf : leaves(nest))
    for_each_store(leaf, [&](const ir::Array& array, const std::vector<Expr>&) { stores += array == saved.array; });
  return own && stores == 1;
}

// The nest with new values on the tape alone, and one that copies them to the array, as merge_copies leaves it. Each
// iteration has an element of its own, or `Levels` refuses.
std::pair<Stmt, Stmt> with_copy_apart(const Stmt& nest, const Saved& saved) {
  const auto on_tape = [&](const ir::Array& array, const std::vector<Expr>&) -> std::optional<ir::ElementPlace> {
    return array == saved.array ? std::optional(ir::ElementPlace{saved.tape, saved.level}) : std::nullopt;
  };
  bool updated = false;
  const Stmt first = ir::rewrite(nest, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    if (s.same_as(saved.save)) return ir::block({});
    if (updated) return ir::move_elements(s, on_tape);
    if (!s.same_as(saved.update)) return std::nullopt;
    updated = true;
    auto* sum = s.as<ir::Reduce>();
    const Expr value = sum ? ir::combined(*sum, ir::load(saved.array, saved.element)) : Expr(s.as<ir::Assign>()->value);
    return ir::assign(saved.tape, saved.level, value, s->location);
  });
  std::vector<const ir::For*> loops;
  for (Stmt at = nest; at.as<ir::For>(); at = at.as<ir::For>()->body) loops.push_back(at.as<ir::For>());
  Stmt copy = ir::assign(saved.array, saved.element, ir::load(saved.tape, saved.level), saved.save->location);
  for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) copy = with_body(**loop, copy);
  return std::pair(first, ir::with_fresh_names(copy));
}

// One loop over steps, and the nest in it that copies a level back.
class Levels {
 public:
  Levels(const ir::Program& program, const std::vector<Stmt>& statements, const Stmt& loop, const Stmt& copy)
      : program_(program), statements_(statements), loop_(loop), copy_(copy), t_(ir::var(steps().iterator)) {}

  bool is_legal() { return is_copy_of_level() && levels_are_written_as_copied() && array_changes_by_the_copy_alone(); }

  ir::Program build() {
    find_origin();
    const Stmt body = ir::rewrite(program_.body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      if (s.same_as(loop_)) return with_levels();
      if (origin_ && s.same_as(setting_)) return ir::block({});
      return std::nullopt;
    });
    if (uses(body, array_)) return ir::with_body(program_, body);
    return ir::with_body(program_, ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
                           const auto* scope = s.as<ir::Allocate>();
                           return scope && scope->array == array_ ? std::optional(scope->body) : std::nullopt;
                         }));
  }

  void note(PassContext& context) const {
    note_storage(context, array_, Storage::Alias, fmt::format("levels of {}", tape_->name),
                 fmt::format("loop '{}' puts every state there and copies it back", steps().iterator.name),
                 copy_->location);
  }

 private:
  const ir::For& steps() const { return *loop_.as<ir::For>(); }

  bool is_copy_of_level() {
    const auto nest = element_nest(copy_);
    auto* source = nest ? nest->source() : nullptr;
    if (steps().mode != ir::LoopMode::Forward || ir::has_load(steps().lower) || ir::has_load(steps().upper))
      return false;
    if (!source || source->array->role != ir::ArrayRole::Tape) return false;
    tape_ = source->array, array_ = nest->assign->array;
    for (const LocalArray& local : locals_of(loop_))
      if (local.array == array_) return false;  // of one step
    const auto range = range_of(nest->loops, nest->assign->indices);
    if (!range || range->empty() || array_->type != tape_->type) return false;
    range_ = *range;
    if (source->indices.size() != range_.size() + 1) return false;
    while (level_ < range_.size() && !distance(source->indices[level_], t_)) ++level_;
    const auto offset = distance(source->indices[level_], t_);
    if (!offset) return false;
    offset_ = *offset;
    const auto aliased = ir::aliased_arrays(program_);
    return ir::equal(without_dimension(source->indices, level_), nest->assign->indices) &&
           ir::equal(without_dimension(tape_->shape, level_), array_->shape) &&
           is_whole_but_for_borders(range_, array_->shape) && !aliased.count(array_) && !aliased.count(tape_);
  }

  // One store, under no condition, in an earlier nest of the step.
  bool levels_are_written_as_copied() const {
    const auto uses = level_uses(program_.body, tape_, level_);
    if (!uses) return false;
    const LevelUse* store = nullptr;
    for (const LevelUse& use : *uses) {
      if (!use.stores) continue;
      if (store || !use.path.back().as<ir::Assign>()) return false;
      store = &use;
    }
    if (!store || distance(store->index, t_) != offset_) return false;
    std::vector<const ir::For*> loops;
    bool inside = false;
    for (const Stmt& s : store->path) {
      if (s.kind() == ir::Kind::If) return false;
      if (inside && s.as<ir::For>()) loops.push_back(s.as<ir::For>());
      inside |= s.same_as(loop_);
    }
    const auto range = range_of(loops, without_dimension(store->indices, level_));
    if (!inside || !range || part_of_step(*store) >= part_of_step(copy_)) return false;
    for (std::size_t d = 0; d < range_.size(); ++d)
      if (!ir::equal((*range)[d].lower, range_[d].lower) || !ir::equal((*range)[d].upper, range_[d].upper))
        return false;
    return true;
  }

  bool array_changes_by_the_copy_alone() {
    const auto uses = level_uses(program_.body, array_, 0);
    if (!uses) return false;
    for (const LevelUse& use : *uses) {
      if (!in_loop(use)) continue;
      if (use.stores ? !use.path.back().same_as(innermost(copy_)) : is_read_often(use)) return false;
    }
    find_setting();
    return setting_ || array_->role == ir::ArrayRole::InOut || is_whole(range_, array_->shape);
  }

  // The last nest before the loop that sets all of the array.
  void find_setting() {
    for (const Stmt& s : statements_) {
      if (s.same_as(loop_)) break;
      std::vector<const ir::For*> loops;
      Stmt at = s;
      for (; at.as<ir::For>(); at = at.as<ir::For>()->body) loops.push_back(at.as<ir::For>());
      for (const Stmt& leaf : top_level(at)) {
        auto* assign = leaf.as<ir::Assign>();
        const auto range = assign && assign->array == array_ ? range_of(loops, assign->indices) : std::nullopt;
        if (range && is_whole(*range, array_->shape)) setting_ = s;
      }
    }
  }

  // The array that the first state is a copy of, when that one stays as it is and only the loop uses the copy.
  void find_origin() {
    const auto nest = setting_ ? element_nest(setting_) : std::nullopt;
    auto* source = nest ? nest->source() : nullptr;
    if (!source || source->array == array_ || source->array->type != array_->type) return;
    if (source->array->role == ir::ArrayRole::Local || ir::aliased_arrays(program_).count(source->array)) return;
    if (!ir::equal(source->indices, nest->assign->indices)) return;
    bool later = false;
    for (const Stmt& s : statements_) {
      const bool sets = s.same_as(setting_), steps = s.same_as(loop_);
      if (!sets && !steps && uses(s, array_)) return;
      for (const Stmt& leaf : later ? leaves(s) : std::vector<Stmt>()) {
        bool changes = false;
        for_each_store(leaf, [&](const ir::Array& a, const std::vector<Expr>&) { changes |= a == source->array; });
        if (changes) return;
      }
      later |= sets;
      if (steps) break;
    }
    origin_ = source->array;
  }

  static bool in(const LevelUse& use, const Stmt& s) {
    return std::any_of(use.path.begin(), use.path.end(), [&](const Stmt& around) { return around.same_as(s); });
  }
  bool in_loop(const LevelUse& use) const { return in(use, loop_); }
  // In loops around which the step has one for each dimension already: a choice there costs more than a store saves.
  bool is_read_often(const LevelUse& use) const {
    const auto loops = std::count_if(use.path.begin(), use.path.end(), [](const Stmt& s) { return s.as<ir::For>(); });
    return loops > 1 + std::ssize(array_->shape);
  }
  static Stmt innermost(Stmt nest) {
    while (nest.as<ir::For>()) nest = nest.as<ir::For>()->body;
    return nest;
  }

  std::vector<Stmt> parts() const { return top_level(steps().body); }
  std::size_t part_of_step(const Stmt& part) const {
    const auto all = parts();
    return static_cast<std::size_t>(
        std::find_if(all.begin(), all.end(), [&](const Stmt& s) { return s.same_as(part); }) - all.begin());
  }
  std::size_t part_of_step(const LevelUse& use) const {
    const auto all = parts();
    return static_cast<std::size_t>(std::find_if(all.begin(), all.end(), [&](const Stmt& s) { return in(use, s); }) -
                                    all.begin());
  }

  Expr at_level(const Expr& step, const std::vector<Expr>& element) const {
    std::vector<Expr> indices = element;
    indices.insert(indices.begin() + static_cast<std::ptrdiff_t>(level_),
                   simplify_indices(step + ir::int_const(offset_)));
    return ir::load(tape_, std::move(indices));
  }

  Expr first_state(const std::vector<Expr>& element) const { return ir::load(origin_ ? origin_ : array_, element); }

  // What a part of the step loads from the array: the state before the copy or after it.
  Stmt with_levels_read(const Stmt& part, bool after_copy) const {
    class Reader final : public ir::Rewriter {
     public:
      Reader(const Levels& owner, bool after_copy) : owner_(owner), after_copy_(after_copy) {}
      using Rewriter::rewrite;
      Expr rewrite(const Expr& e) override {
        auto* load = e.as<ir::Load>();
        if (!load || load->array != owner_.array_) return rewrite_children(e);
        std::vector<Expr> element;
        for (const Expr& index : load->indices) element.push_back(rewrite(index));
        if (after_copy_) return owner_.at_level(owner_.t_, element);
        const Expr later = ir::binary(BinaryOp::Gt, owner_.t_, owner_.steps().lower);
        return ir::select(later, owner_.at_level(owner_.t_ - ir::int_const(1), element), owner_.first_state(element));
      }

     private:
      const Levels& owner_;
      bool after_copy_;
    };
    return Reader(*this, after_copy).rewrite(part);
  }

  Stmt with_levels() const {
    bool copied = false;
    const Stmt body = ir::rewrite(steps().body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      if (s.kind() == ir::Kind::Block || s.kind() == ir::Kind::Allocate) return std::nullopt;
      if (s.same_as(copy_)) return copied = true, ir::block({});
      return with_levels_read(s, copied);
    });
    return ir::block({borders(), with_body(steps(), body), is_wanted_later() ? last_state() : ir::block({})});
  }

  bool is_wanted_later() const {
    const auto loop =
        std::find_if(statements_.begin(), statements_.end(), [&](const Stmt& s) { return s.same_as(loop_); });
    return array_->role != ir::ArrayRole::Local ||
           std::any_of(loop + 1, statements_.end(), [&](const Stmt& s) { return uses(s, array_); });
  }

  // for t: tape[t, border] = array[border], dimension by dimension, opposite elements together.
  Stmt borders() const {
    std::vector<Stmt> nests;
    for (std::size_t d = 0; d < range_.size(); ++d) {
      const Expr& extent = array_->shape[d];
      const std::int64_t before = *ir::as_int(range_[d].lower), behind = *distance(extent, range_[d].upper);
      for (std::int64_t k = 0; k < std::max(before, behind); ++k) {
        std::vector<Expr> places;
        if (k < before) places.push_back(ir::int_const(k));
        if (k < behind) places.push_back(simplify_indices(extent - ir::int_const(k + 1)));
        const Expr exists = ir::binary(BinaryOp::Lt, ir::int_const(k), extent);
        nests.push_back(ir::if_then(exists, border(d, places), {}, copy_->location));
      }
    }
    return ir::block(std::move(nests));
  }

  // What earlier dimensions leave out is set by the borders in these.
  Stmt border(std::size_t dimension, const std::vector<Expr>& places) const {
    const ir::Symbol step = ir::make_symbol(steps().iterator.name);
    std::vector<ir::Symbol> iterators;
    std::vector<Expr> element;
    for (std::size_t d = 0; d < range_.size(); ++d) {
      iterators.push_back(ir::make_symbol("z" + std::to_string(d)));
      element.push_back(ir::var(iterators.back()));
    }
    std::vector<Stmt> body;
    for (const Expr& place : places) {
      element[dimension] = place;
      const Expr at = at_level(ir::var(step), element);
      body.push_back(ir::assign(tape_, at.as<ir::Load>()->indices, first_state(element), copy_->location));
    }
    Stmt nest = ir::block(std::move(body));
    for (std::size_t d = range_.size(); d-- > 0;) {
      if (d == dimension) continue;
      const IndexRange bounds = d < dimension ? range_[d] : IndexRange{ir::int_const(0), array_->shape[d]};
      nest = ir::for_loop(iterators[d], bounds.lower, bounds.upper, nest, ir::LoopMode::Forward, copy_->location);
    }
    return ir::for_loop(step, steps().lower, steps().upper, nest, ir::LoopMode::Forward, steps().location);
  }

  Stmt last_state() const {
    const Stmt like = origin_ ? setting_ : copy_;
    const ElementNest nest = *element_nest(like);
    const std::vector<Expr>& element = nest.assign->indices;
    const Expr any = ir::binary(BinaryOp::Lt, steps().lower, steps().upper);
    const Expr level = at_level(steps().upper - ir::int_const(1), element);
    const Expr value = origin_ ? ir::select(any, level, first_state(element)) : level;
    Stmt result = ir::assign(array_, element, value, copy_->location);
    for (auto loop = nest.loops.rbegin(); loop != nest.loops.rend(); ++loop) result = with_body(**loop, result);
    result = ir::with_fresh_names(result);
    return origin_ ? result : ir::if_then(any, result, {}, copy_->location);
  }

  const ir::Program& program_;
  const std::vector<Stmt>& statements_;
  const Stmt loop_, copy_;
  const Expr t_;
  ir::Array array_, tape_, origin_;
  std::size_t level_ = 0;  // the dimension of the tape that the steps go through
  std::int64_t offset_ = 0;
  std::vector<IndexRange> range_;  // of the elements that a step replaces
  Stmt setting_;
};

std::optional<ir::Program> read_from(const ir::Program& program, const Stmt& loop, const Stmt& copy,
                                     PassContext& context) {
  const std::vector<Stmt> statements = top_level(program.body);
  Levels levels(program, statements, loop, copy);
  if (!levels.is_legal()) return std::nullopt;
  levels.note(context);
  return levels.build();
}

std::optional<ir::Program> read_once(const ir::Program& program, PassContext& context) {
  for (const Stmt& loop : top_level(program.body)) {
    if (!loop.as<ir::For>()) continue;
    for (const Stmt& nest : top_level(loop.as<ir::For>()->body)) {
      if (!nest.as<ir::For>()) continue;
      if (auto result = read_from(program, loop, nest, context)) return result;
      for (const Saved& saved : saved_updates(nest)) {
        if (!is_own(saved, nest)) continue;
        const auto [first, copy] = with_copy_apart(nest, saved);
        const Stmt steps = replace(loop, nest, ir::block({first, copy}));
        const ir::Program apart = ir::with_body(program, replace(program.body, loop, steps));
        if (auto result = read_from(apart, steps, copy, context)) return result;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

ir::Program read_levels(const ir::Program& program, PassContext& context) {
  ir::Program result = program;
  while (auto read = read_once(result, context)) result = *read;
  return result;
}

}  // namespace loopgrad::transforms
