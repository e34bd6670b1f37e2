#include "transforms/map/gpu/parallel_nest.h"

#include "dsl/ir/visit.h"
#include "dsl/poly/coalesced.h"
#include "dsl/poly/extremes.h"
#include "dsl/poly/isl_bridge.h"
#include "dsl/poly/model.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/strides.h"
#include "transforms/loops/loop_builder.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

Expr one() { return ir::int_const(1); }

void add_conjuncts(const Expr& condition, std::vector<Expr>& out) {
  const auto* both = condition.as<ir::Binary>();
  if (!both || both->op != BinaryOp::And) return out.push_back(condition);
  add_conjuncts(both->a, out);
  add_conjuncts(both->b, out);
}

class Builder {
 public:
  ParallelNest build(const Stmt& s) {
    Stmt inner = s;
    std::vector<Expr> conditions;  // between the last loop and `inner`
    Stmt body = s;                 // of the last loop
    while (true) {
      if (const auto* branch = inner.as<ir::If>(); branch && !loops_.empty() && can_pass(*branch)) {
        add_conjuncts(branch->condition, conditions);
        inner = branch->then_body;
        continue;
      }
      const auto* loop = inner.as<ir::For>();
      if (!loop || (!loops_.empty() && loop->mode != LoopMode::Parallel) || !add(*loop)) break;
      guards_.insert(guards_.end(), conditions.begin(), conditions.end());
      conditions.clear();
      inner = body = loop->body;
    }
    return finish(body);
  }

 private:
  struct Loop {
    const ir::For* loop;
    Expr lower, upper;
    bool changed = false;
  };

  static bool can_pass(const ir::If& branch) { return ir::is_empty(branch.else_body) && !has_load(branch.condition); }

  bool mentions_loop(const Expr& e) const {
    for (const Loop& outer : loops_)
      if (mentions(e, outer.loop->iterator)) return true;
    return false;
  }

  /// False when the host can neither know nor bound the loop's bounds.
  bool add(const ir::For& loop) {
    Loop added{&loop, loop.lower, loop.upper};
    if (!loops_.empty() && (!is_total(loop.lower) || !is_total(loop.upper))) return false;
    if (mentions_loop(loop.lower) || mentions_loop(loop.upper)) {
      const auto lower = ir::range_of(loop.lower, ranges_), upper = ir::range_of(loop.upper, ranges_);
      if (!lower || !upper) return false;
      const Expr i = ir::var(loop.iterator);
      guards_.push_back(ir::binary(BinaryOp::Le, loop.lower, i));
      guards_.push_back(ir::binary(BinaryOp::Lt, i, loop.upper));
      added = {&loop, lower->lowest, upper->highest, true};
    }
    ranges_.variables[loop.iterator] = {added.lower, added.upper - one()};
    loops_.push_back(added);
    return true;
  }

  ParallelNest finish(const Stmt& body) {
    Expr guard;
    for (const Expr& condition : guards_) {
      if (narrows(condition)) continue;
      guard = guard ? ir::binary(BinaryOp::And, guard, condition) : condition;
    }
    if (guard) pin(guard);
    ParallelNest nest;
    for (const Loop& loop : loops_) {
      const ir::For& old = *loop.loop;
      if (loop.changed)
        nest.owned.push_back(ir::for_loop(old.iterator, simplify_indices(loop.lower), simplify_indices(loop.upper),
                                          old.body, old.mode, old.location, old.at_most));
      nest.loops.push_back(loop.changed ? nest.owned.back().as<ir::For>() : loop.loop);
    }
    nest.body = guard ? ir::if_then(guard, body) : body;
    return nest;
  }

  /// Where the conditions together leave a loop a single iteration (what is left of the last branch of many, say), its
  /// bounds say so: grids of idle blocks take their time.
  void pin(const Expr& guard) {
    auto isl = std::make_shared<poly::Context>();
    poly::Scope scope{isl, {}, ""};
    for (const Loop& loop : loops_) scope.iterators.push_back(loop.loop->iterator);
    try {
      poly::guarded(*isl, [&] {
        isl::set points = scope.universe();
        std::vector<bool> bounded;
        for (const Loop& loop : loops_) {
          const Expr i = ir::var(loop.loop->iterator);
          const auto from = poly::to_set(ir::binary(BinaryOp::Le, loop.lower, i), scope);
          const auto to = poly::to_set(ir::binary(BinaryOp::Lt, i, loop.upper), scope);
          bounded.push_back(from && to);
          if (from && to) points = points.intersect(*from).intersect(*to);
        }
        std::vector<Expr> conditions;
        add_conjuncts(guard, conditions);
        for (const Expr& condition : conditions)
          if (const auto set = poly::to_set(condition, scope)) points = points.intersect(*set);
        for (std::size_t k = 0; k < loops_.size(); ++k)
          if (bounded[k]) pin(loops_[k], points, static_cast<unsigned>(k), *isl);
        return true;
      });
    } catch (const poly::BudgetError&) {
      return;  // the guard stays, and is all that is needed
    }
  }

  static void pin(Loop& loop, const isl::set& points, unsigned dimension, poly::Context& context) {
    const auto trips = ir::as_int(loop.upper - loop.lower);
    if (points.is_empty() || (trips && *trips <= 1)) return;
    const auto least = poly::least_of(context, points, dimension), most = poly::greatest_of(context, points, dimension);
    if (!least || !most) return;
    const isl::pw_aff first = poly::coalesced(*least), last = poly::coalesced(*most);
    if (!first.eq_set(last).is_equal(first.domain())) return;
    const Expr only = poly::to_expr(first, {}, context);
    loop.changed = true;
    loop.lower = ir::larger(loop.lower, only);
    loop.upper = ir::smaller(loop.upper, only + one());
  }

  /// Makes the condition part of a loop's bounds if it is about one iterator.
  bool narrows(const Expr& condition) {
    const auto* n = condition.as<ir::Binary>();
    if (!n || n->a.type() != ScalarType::I64) return false;
    for (Loop& loop : loops_) {
      const ir::Symbol& i = loop.loop->iterator;
      ir::LinearForm form = linear_form(n->a - n->b);  // op 0
      const auto step = coefficient_of(to_expr(form), i);
      if (!step || (*step != 1 && *step != -1)) continue;
      form.terms.erase(std::find_if(form.terms.begin(), form.terms.end(), [&](const ir::LinearForm::Term& term) {
        const auto* v = term.atom.as<ir::Var>();
        return v && v->symbol == i;
      }));
      const Expr rest = to_expr(form);
      if (mentions_loop(rest) || !is_total(rest)) return false;
      return bound(loop, n->op, *step > 0, *step > 0 ? -rest : rest);
    }
    return false;
  }

  /// (i - limit) op 0 when `forward`, else (limit - i) op 0.
  static bool bound(Loop& loop, BinaryOp op, bool forward, const Expr& limit) {
    const bool greater = op == BinaryOp::Ge || op == BinaryOp::Gt;
    const bool strict = op == BinaryOp::Lt || op == BinaryOp::Gt;
    if (op != BinaryOp::Eq && op != BinaryOp::Le && op != BinaryOp::Lt && !greater) return false;
    loop.changed = true;
    if (op == BinaryOp::Eq || greater == forward) loop.lower = ir::larger(loop.lower, strict ? limit + one() : limit);
    if (op == BinaryOp::Eq || greater != forward) loop.upper = ir::smaller(loop.upper, strict ? limit : limit + one());
    return true;
  }

  std::vector<Loop> loops_;
  std::vector<Expr> guards_;
  ir::RangeContext ranges_ = ir::ranges_in_variables();
};

}  // namespace

bool is_total(const Expr& e) {
  bool total = host_knows(e);
  ir::walk(e, [&](const Expr& x) {
    const auto* n = x.as<ir::Binary>();
    if (n && (n->op == BinaryOp::FloorDiv || n->op == BinaryOp::Mod)) total &= ir::surely_positive(n->b);
  });
  return total;
}

bool ParallelNest::fits(const ir::For& loop) const {
  for (const Expr& bound : {loop.lower, loop.upper}) {
    if (!host_knows(bound)) return false;
    for (const ir::For* outer : loops)
      if (mentions(bound, outer->iterator)) return false;
  }
  return true;
}

ParallelNest parallel_nest(const Stmt& s) { return Builder().build(s); }

Stmt in_grid(const std::vector<const ir::For*>& loops, Stmt body) {
  for (auto it = loops.rbegin(); it != loops.rend(); ++it)
    body = grid_loop((*it)->iterator, (*it)->lower, (*it)->upper, body, (*it)->location);
  return body;
}

}  // namespace loopgrad::transforms
