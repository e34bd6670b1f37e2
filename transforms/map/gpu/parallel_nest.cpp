#include "transforms/map/gpu/parallel_nest.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
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

const Expr one = ir::int_const(1);

void add_conjuncts(const Expr& condition, std::vector<Expr>& out) {
  const auto* both = condition.as<ir::Binary>();
  if (!both || both->op != BinaryOp::And) return out.push_back(condition);
  add_conjuncts(both->a, out);
  add_conjuncts(both->b, out);
}

/// A bound that is evaluated although a condition around it does not hold must not divide by zero then.
bool is_total(const Expr& e) {
  bool total = !has_load(e);
  ir::walk(e, [&](const Expr& x) {
    const auto* n = x.as<ir::Binary>();
    if (n && (n->op == BinaryOp::FloorDiv || n->op == BinaryOp::Mod)) total &= ir::surely_positive(n->b);
  });
  return total;
}

/// Whether a sum of terms is at least as large as the other for all positive sizes, as far as its terms tell.
bool grows_as_much(const Expr& a, const Expr& b) {
  const ir::LinearForm own = linear_form(a), other = linear_form(b);
  return std::all_of(other.terms.begin(), other.terms.end(), [&](const ir::LinearForm::Term& term) {
    return std::any_of(own.terms.begin(), own.terms.end(), [&](const ir::LinearForm::Term& t) {
      return ir::equal(t.atom, term.atom) && t.coefficient >= term.coefficient;
    });
  });
}

/// Whether a band of that width may have fewer iterations than `lower`..`upper`, which is all that there may be: the
/// diagonals of a rectangle have not.
bool may_be_narrower(const Expr& width, const Expr& lower, const Expr& upper) {
  std::vector<Expr> widths, starts, ends;
  const auto* n = width.as<ir::Binary>();
  ir::collect_operands(n && n->op == BinaryOp::Max && ir::as_int(n->b) == 0 ? n->a : width, BinaryOp::Min, widths);
  ir::collect_operands(lower, BinaryOp::Max, starts);
  ir::collect_operands(upper, BinaryOp::Min, ends);
  return std::any_of(widths.begin(), widths.end(), [&](const Expr& own) {
    return std::all_of(starts.begin(), starts.end(), [&](const Expr& start) {
      return std::none_of(ends.begin(), ends.end(), [&](const Expr& end) { return grows_as_much(own, end - start); });
    });
  });
}

class Builder {
 public:
  ParallelNest build(const Stmt& s) {
    ranges_.leaf = [](const Expr& leaf) {
      return leaf.as<ir::Var>() ? std::optional(ir::Range{leaf, leaf}) : std::nullopt;
    };
    ranges_.non_negative = [](const ir::Symbol&) { return false; };
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
      for (const Expr& condition : conditions) guards_.push_back(ir::substitute(condition, places_));
      conditions.clear();
      inner = body = loop->body;
    }
    return finish(body);
  }

 private:
  struct Loop {
    const ir::For* loop;
    ir::Symbol iterator;
    Expr lower, upper;
    bool changed = false;
  };

  static bool can_pass(const ir::If& branch) { return ir::is_empty(branch.else_body) && !has_load(branch.condition); }

  bool mentions_loop(const Expr& e) const {
    for (const Loop& outer : loops_)
      if (mentions(e, outer.iterator)) return true;
    return false;
  }

  /// False when the host can neither know nor bound the loop's bounds.
  bool add(const ir::For& loop) {
    const Expr from = ir::substitute(loop.lower, places_), to = ir::substitute(loop.upper, places_);
    Loop added{&loop, loop.iterator, from, to};
    if (!loops_.empty() && (!is_total(from) || !is_total(to))) return false;
    if (mentions_loop(from) || mentions_loop(to)) {
      const auto lower = ir::range_of(from, ranges_), upper = ir::range_of(to, ranges_);
      const auto width = ir::band_width(from, to, [this](const Expr& e) { return !has_load(e) && !mentions_loop(e); });
      Expr i = ir::var(loop.iterator);
      if (width && (!lower || !upper || may_be_narrower(*width, lower->lowest, upper->highest))) {
        const Expr most = lower && upper ? ir::smaller(*width, upper->highest - lower->lowest) : *width;
        added = {&loop, ir::make_symbol(loop.iterator.name), ir::int_const(0), most, true};
        i = from + ir::var(added.iterator);
        places_[loop.iterator] = i;
      } else {
        if (!lower || !upper) return false;
        guards_.push_back(ir::binary(BinaryOp::Le, from, i));
        added = {&loop, loop.iterator, lower->lowest, upper->highest, true};
      }
      guards_.push_back(ir::binary(BinaryOp::Lt, i, to));
    }
    ranges_.variables[added.iterator] = {added.lower, added.upper - one};
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
        nest.owned.push_back(ir::for_loop(loop.iterator, simplify_indices(loop.lower), simplify_indices(loop.upper),
                                          old.body, old.mode, old.location, old.at_most));
      nest.loops.push_back(loop.changed ? nest.owned.back().as<ir::For>() : loop.loop);
    }
    nest.body = places_.empty() ? body : ir::substitute(body, places_);
    if (guard) nest.body = ir::if_then(guard, nest.body);
    return nest;
  }

  /// Where the conditions together leave a loop a single iteration (what is left of the last branch of many, say), its
  /// bounds say so: grids of idle blocks take their time.
  void pin(const Expr& guard) {
    auto isl = std::make_shared<poly::Context>();
    poly::Scope scope{isl, {}, ""};
    for (const Loop& loop : loops_) scope.iterators.push_back(loop.iterator);
    try {
      poly::guarded(*isl, [&] {
        isl::set points = scope.universe();
        std::vector<bool> bounded;
        for (const Loop& loop : loops_) {
          const Expr i = ir::var(loop.iterator);
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
    loop.upper = ir::smaller(loop.upper, only + one);
  }

  /// Makes the condition part of a loop's bounds if it is about one iterator.
  bool narrows(const Expr& condition) {
    const auto* n = condition.as<ir::Binary>();
    if (!n || n->a.type() != ScalarType::I64) return false;
    for (Loop& loop : loops_) {
      const ir::Symbol& i = loop.iterator;
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
    if (op == BinaryOp::Eq || greater == forward) loop.lower = ir::larger(loop.lower, strict ? limit + one : limit);
    if (op == BinaryOp::Eq || greater != forward) loop.upper = ir::smaller(loop.upper, strict ? limit : limit + one);
    return true;
  }

  std::vector<Loop> loops_;
  std::vector<Expr> guards_;
  ir::Substitution places_;  // of iterators that are counted from where a band begins
  ir::RangeContext ranges_;
};

}  // namespace

bool ParallelNest::fits(const ir::For& loop) const {
  for (const Expr& bound : {loop.lower, loop.upper}) {
    if (has_load(bound)) return false;
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
