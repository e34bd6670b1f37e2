#include "transforms/loops/takers.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

/// `all`: what numbers keep apart from this one is apart from all that is cleared.
bool reads_only(const Stmt& leaf, const ir::Assign& element, const ir::Assign& all) {
  bool only = true;
  ir::walk(
      leaf, [](const Stmt&) {},
      [&](const Expr& e) {
        const auto* load = e.as<ir::Load>();
        only &= !load || load->array != element.array || ir::equal(load->indices, element.indices) ||
                ir::are_in_different_planes(load->indices, all.indices);
      });
  return only;
}

}  // namespace

bool Takers::may_use(const Expr& e) const {
  bool found = false;
  ir::walk(e, [&](const Expr& part) {
    const auto* load = part.as<ir::Load>();
    found |= load && load->array == element_.array && !ir::are_in_different_planes(load->indices, element_.indices);
  });
  return found;
}

bool Takers::may_use(const Stmt& s) const {
  if (!uses(s, element_.array)) return false;
  bool found = false;
  ir::walk(
      s,
      [&](const Stmt& one) {
        bool stores = false;
        for_each_store(one, [&](const Array& array, const std::vector<Expr>& indices) {
          stores = true;
          found |= array == element_.array && !ir::are_in_different_planes(indices, element_.indices);
        });
        const auto* local = one.as<ir::Allocate>();
        const bool is_structure = one.as<ir::Block>() || one.as<ir::If>() || one.as<ir::For>() || local;
        found |= local && local->array == element_.array;
        found |= !stores && !is_structure && uses(one, element_.array);
      },
      [&](const Expr& e) { found |= may_use(e); });
  return found;
}

/// Statements of one body: what reads an element comes before what clears it, in the same body.
bool Takers::look_at(const Stmt& s) {
  if (!s) return true;
  if (!may_use(s)) return note_between(s), true;
  if (const auto* block = s.as<ir::Block>())
    return std::all_of(block->body.begin(), block->body.end(), [&](const Stmt& child) { return look_at(child); });
  if (const auto* local = s.as<ir::Allocate>()) return local->array != element_.array && look_at(local->body);
  if (const auto* loop = s.as<ir::For>()) {
    if (!waiting_.empty() || ir::is_parallel(loop->mode) || may_use(loop->lower) || may_use(loop->upper)) return false;
    loops_.push_back(s);
    const bool fits = look_at(loop->body) && waiting_.empty();
    loops_.pop_back();
    return fits;
  }
  if (const auto* branch = s.as<ir::If>()) {
    if (!waiting_.empty() || may_use(branch->condition)) return false;
    return look_at(branch->then_body) && waiting_.empty() && look_at(branch->else_body) && waiting_.empty();
  }
  return look_at_leaf(s);
}

bool Takers::look_at_leaf(const Stmt& s) {
  const auto* assign = s.as<ir::Assign>();
  const auto* sum = s.as<ir::Reduce>();
  if (!assign && (!sum || sum->atomic)) return false;
  const Array& target = assign ? assign->array : sum->array;
  const std::vector<Expr>& indices = assign ? assign->indices : sum->indices;
  const bool is_other = target != element_.array || ir::are_in_different_planes(indices, element_.indices);
  if (sum && !is_other) return false;
  if (is_other) return waiting_.push_back(s), note_between(s), true;
  if (!ir::is_const(assign->value, 0) || !is_float(target->type) || is_moved(*assign)) return false;
  // What numbers keep apart from the one element they must keep apart from all.
  for (std::size_t d = 0; d < indices.size(); ++d)
    if (const auto plane = ir::as_int(element_.indices[d]); plane && ir::as_int(indices[d]) != plane) return false;
  if (std::any_of(indices.begin(), indices.end(), [&](const Expr& index) { return uses(index, target); })) return false;
  for (const Stmt& reader : waiting_)
    if (!reads_only(reader, *assign, element_)) return false;
  all.push_back({s, std::move(waiting_), loops_});
  waiting_.clear();
  between_.clear();
  return true;
}

/// What is stored to once an element has been read.
void Takers::note_between(const Stmt& s) {
  if (waiting_.empty()) return;
  for (const Stmt& leaf : leaves(s))
    for_each_store(leaf, [&](const Array& stored, const std::vector<Expr>&) { between_.insert(stored); });
}

/// Whether the indices need not say the same to what clears the element as to a reader.
bool Takers::is_moved(const ir::Assign& assign) const {
  return std::any_of(between_.begin(), between_.end(), [&](const Array& stored) {
    return std::any_of(assign.indices.begin(), assign.indices.end(), [&](const Expr& e) { return uses(e, stored); });
  });
}

namespace {

Expr trips(const ir::For& loop) { return loop.upper - loop.lower; }

Expr left_after(const ir::For& loop) {
  const Expr i = ir::var(loop.iterator);
  return loop.mode == ir::LoopMode::Backward ? i - loop.lower : loop.upper - ir::int_const(1) - i;
}

}  // namespace

Turns::Turns(const ir::For& loop, const std::vector<Taker>& takers) : loop_(loop), takers_(takers) {
  shared_ = takers[0].loops.size();
  for (const Taker& taker : takers) {
    std::size_t alike = 0;
    while (alike < std::min(shared_, taker.loops.size()) && taker.loops[alike].same_as(takers[0].loops[alike])) ++alike;
    shared_ = alike;
  }
  for (const Taker& taker : takers) {
    trips_inside_.push_back(ir::int_const(1));
    for (std::size_t k = shared_; k < taker.loops.size(); ++k)
      if (!chooses(*taker.loops[k].as<ir::For>()))
        trips_inside_.back() =
            trips_inside_.back() * ir::larger(trips(*taker.loops[k].as<ir::For>()), ir::int_const(0));
  }
}

bool Turns::can_be_counted() const {
  std::set<ir::Symbol> inside{loop_.iterator};
  for (const Taker& taker : takers_)
    for (const Stmt& s : taker.loops) inside.insert(s.as<ir::For>()->iterator);
  const auto is_fixed = [&](const ir::For& loop) {
    return chooses(loop) ||
           (host_knows(trips(loop)) && std::none_of(inside.begin(), inside.end(), [&](const ir::Symbol& i) {
              return mentions(loop.lower, i) || mentions(loop.upper, i);
            }));
  };
  for (const Taker& a : takers_)
    for (const Taker& b : takers_)
      if (&a != &b && std::min(a.loops.size(), b.loops.size()) > shared_ && a.loops[shared_].same_as(b.loops[shared_]))
        return false;  // these take turns in a loop that not all are in
  return is_fixed(loop_) && std::all_of(takers_.begin(), takers_.end(), [&](const Taker& taker) {
           return std::all_of(taker.loops.begin(), taker.loops.end(),
                              [&](const Stmt& s) { return is_fixed(*s.as<ir::For>()); });
         });
}

Expr Turns::of(std::size_t which) const {
  Expr turn = ir::int_const(0), all = ir::int_const(0);
  if (!chooses(loop_)) turn = left_after(loop_);
  for (std::size_t k = 0; k < shared_; ++k) turn = after(turn, *takers_[0].loops[k].as<ir::For>());
  for (const Expr& inside : trips_inside_) all = all + inside;
  turn = turn * all;
  for (std::size_t k = which + 1; k < takers_.size(); ++k) turn = turn + trips_inside_[k];
  Expr own = ir::int_const(0);
  const std::vector<Stmt>& loops = takers_[which].loops;
  for (std::size_t k = shared_; k < loops.size(); ++k) own = after(own, *loops[k].as<ir::For>());
  return turn + own + ir::int_const(1);
}

Expr Turns::after(const Expr& turn, const ir::For& loop) const {
  return chooses(loop) ? turn : turn * trips(loop) + left_after(loop);
}

/// Whether its iterations have elements of their own, by one and the same index.
bool Turns::chooses(const ir::For& loop) const {
  const auto is_own = [&](std::size_t d) {
    return std::all_of(takers_.begin(), takers_.end(), [&](const Taker& taker) {
      const auto* index = taker.element().indices[d].as<ir::Var>();
      return index && index->symbol == loop.iterator;
    });
  };
  for (std::size_t d = 0; d < takers_[0].element().indices.size(); ++d)
    if (is_own(d)) return true;
  return false;
}

}  // namespace loopgrad::transforms
