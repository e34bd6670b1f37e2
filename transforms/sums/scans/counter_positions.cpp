#include "transforms/sums/scans/counter_positions.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/growing_counters.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/sums/scans/recurrence.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

class Placer {
 public:
  Placer(const ir::Program& program, const Array& counter)
      : program_(program), counters_(program.body), counter_(counter) {}

  Stmt loop(const ir::For& n) {
    loops_.push_back(&n);
    Expr at;
    const Stmt body = row(n.body, at);
    loops_.pop_back();
    return body.same_as(n.body) ? Stmt() : mapped_like(n, with_body(n, body));
  }

  std::vector<Array> arrays;

 private:
  /// `at`: where the counter's value is kept, from one statement in a row to the next; null until it is.
  Stmt row(const Stmt& s, Expr& at) {
    if (const auto* n = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      bool same = true;
      for (const Stmt& child : n->body) {
        body.push_back(row(child, at));
        same &= body.back().same_as(child);
      }
      return same ? s : ir::block(std::move(body));
    }
    if (const auto* n = s.as<ir::Allocate>()) {
      const Stmt body = row(n->body, at);
      return body.same_as(n->body) ? s : mapped_like(*n, ir::allocate(n->array, body, n->location));
    }
    if (stored_in(s).count(counter_)) {
      at = {};
      return below(s);
    }
    if (!counters_.moves_between(s, counter_) || !uses(s, counter_)) return below(s);
    Stmt keep;
    if (!at) {
      const Array array = positions(s);
      if (!array) return s;
      at = ir::load(array, indices(), s->location);
      keep = ir::assign(array, indices(), ir::load(counter_, {}, s->location), s->location);
    }
    const Stmt moved = ir::rewrite(s, [&](const Expr& e) -> std::optional<Expr> {
      const auto* load = e.as<ir::Load>();
      return load && load->array == counter_ ? std::optional(at) : std::nullopt;
    });
    return keep ? ir::block({keep, moved}) : moved;
  }

  /// Rows in a statement that is none of a row.
  Stmt below(const Stmt& s) {
    if (const auto* n = s.as<ir::If>()) {
      Expr at_then, at_else;
      const Stmt then_body = row(n->then_body, at_then);
      const Stmt else_body = n->else_body ? row(n->else_body, at_else) : Stmt();
      const bool same = then_body.same_as(n->then_body) && else_body.same_as(n->else_body);
      return same ? s : ir::if_then(n->condition, then_body, else_body, n->location);
    }
    const auto* n = s.as<ir::For>();
    const Stmt changed = n ? loop(*n) : Stmt();
    return changed ? changed : s;
  }

  /// A new array with an element for each iteration of the loops around; null where they are no box.
  Array positions(const Stmt& s) {
    std::vector<Expr> shape;
    for (const ir::For* n : loops_) {
      for (const Expr& bound : {n->lower, n->upper}) {
        const auto depends = [&](const ir::For* other) { return ir::mentions(bound, other->iterator); };
        if (ir::has_load(bound) || std::any_of(loops_.begin(), loops_.end(), depends)) return {};
      }
      shape.push_back(extent_of(program_, *n));
    }
    arrays.push_back(
        ir::make_array(counter_->name + "_place", counter_->type, shape, ir::ArrayRole::Local, s->location));
    return arrays.back();
  }
  std::vector<Expr> indices() const {
    std::vector<Expr> result;
    for (const ir::For* n : loops_) result.push_back(simplify_indices(ir::var(n->iterator) - n->lower));
    return result;
  }

  const ir::Program& program_;
  const ir::GrowingCounters counters_;
  const Array counter_;
  std::vector<const ir::For*> loops_;
};

}  // namespace

CounterPositions with_counter_positions(const ir::Program& program, const Stmt& loop, const Array& counter) {
  Placer placer(program, counter);
  const Stmt changed = placer.loop(*loop.as<ir::For>());
  return {changed ? changed : loop, placer.arrays};
}

}  // namespace loopgrad::transforms
