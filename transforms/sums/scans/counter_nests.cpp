#include "transforms/sums/scans/counter_nests.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/loops.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

Expr one() { return ir::int_const(1); }
bool goes_down(const ir::For& n) { return n.mode == ir::LoopMode::Backward; }

Expr digit_of(const ir::For& n) {
  const Expr i = ir::var(n.iterator);
  return simplify_indices(goes_down(n) ? n.upper - one() - i : i - n.lower);
}
Expr iterator_at(const ir::For& n, const Expr& digit) {
  return simplify_indices(goes_down(n) ? n.upper - one() - digit : n.lower + digit);
}

}  // namespace

bool CounterNest::is_box(const std::vector<const ir::For*>& loops) {
  return std::all_of(loops.begin(), loops.end(), [&](const ir::For* n) {
    return !ir::has_load(n->lower) && !ir::has_load(n->upper) && !n->at_most &&
           (n->mode == ir::LoopMode::Forward || n->mode == ir::LoopMode::Backward) &&
           std::none_of(loops.begin(), loops.end(), [&](const ir::For* other) {
             return ir::mentions(n->lower, other->iterator) || ir::mentions(n->upper, other->iterator);
           });
  });
}

CounterNest::CounterNest(const ir::Program& program, std::vector<const ir::For*> loops, const Array& counter,
                         Expr start)
    : loops_(std::move(loops)), start_(std::move(start)), count_(one()) {
  for (const ir::For* n : loops_) {
    extents_.push_back(extent_of(program, *n));
    count_ = simplify_indices(count_ * extents_.back());
    kept_.indices.push_back(digit_of(*n));
  }
  const std::string name = counter->name + "_at";
  kept_.array = ir::make_array(name, counter->type, extents_, ir::ArrayRole::Local, counter->location);
  flat_ = ir::make_array(name, counter->type, {count_}, ir::ArrayRole::Local, counter->location);
  // The iteration before is the one before in the innermost loop that is not at its first one.
  kept_.previous = start_;
  for (std::size_t k = 0; k < loops_.size(); ++k) {
    std::vector<Expr> before = kept_.indices;
    before[k] = simplify_indices(before[k] - one());
    for (std::size_t inner = k + 1; inner < loops_.size(); ++inner)
      before[inner] = simplify_indices(extents_[inner] - one());
    const Expr first =
        ir::binary(BinaryOp::Eq, ir::var(loops_[k]->iterator), iterator_at(*loops_[k], ir::int_const(0)));
    kept_.previous = ir::select(first, kept_.previous, ir::load(kept_.array, before, counter->location));
  }
}

Expr CounterNest::number_of(const std::vector<Expr>& digits) const {
  Expr number = ir::int_const(0);
  for (std::size_t k = 0; k < digits.size(); ++k) number = number * extents_[k] + digits[k];
  return simplify_indices(number);
}

Expr CounterNest::after() const { return ir::load(flat_, {simplify_indices(count_ - one())}); }
Expr CounterNest::runs() const { return ir::binary(BinaryOp::Lt, ir::int_const(0), count_); }

Stmt CounterNest::one_loop(const Expr& value, const SourceLocation& where) const {
  const ir::Symbol q = ir::make_symbol("q");
  const Expr at = ir::var(q), first = ir::binary(BinaryOp::Eq, at, ir::int_const(0));
  const Expr previous = ir::select(first, start_, ir::load(flat_, {at - one()}, where));
  ir::Substitution iterators;
  Expr inner = one();  // iterations of the loops further inside
  for (std::size_t k = loops_.size(); k-- > 0;) {
    const Expr whole = ir::as_int(inner) == 1 ? at : ir::binary(BinaryOp::FloorDiv, at, inner);
    const Expr digit = k == 0 ? whole : ir::binary(BinaryOp::Mod, whole, extents_[k]);
    iterators[loops_[k]->iterator] = iterator_at(*loops_[k], digit);
    inner = simplify_indices(inner * extents_[k]);
  }
  const Expr step = ir::rewrite(
      value, [&](const Expr& e) { return ir::equal(e, kept_.previous) ? std::optional(previous) : std::nullopt; });
  return ir::for_loop(q, ir::int_const(0), count_, ir::assign(flat_, {at}, ir::substitute(step, iterators), where),
                      ir::LoopMode::Forward, where);
}

Stmt CounterNest::flattened(const Stmt& parts, const Stmt& update) const {
  const auto& set = *update.as<ir::Assign>();
  const Stmt replaced = ir::rewrite(parts, {}, [&](const Stmt& s) -> std::optional<Stmt> {
    const bool is_nest = s.kind() == ir::Kind::For && contains(s, update);
    return is_nest ? std::optional(one_loop(set.value, s->location)) : std::nullopt;
  });
  return ir::move_elements(
      replaced, [&](const Array& array, const std::vector<Expr>& indices) -> std::optional<ir::ElementPlace> {
        if (array != kept_.array) return std::nullopt;
        return ir::ElementPlace{flat_, {number_of(indices)}};
      });
}

}  // namespace loopgrad::transforms
