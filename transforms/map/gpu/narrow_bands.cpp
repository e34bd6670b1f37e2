#include "transforms/map/gpu/narrow_bands.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/map/gpu/parallel_nest.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

/// Whether a sum of terms is at least as large as another one for all sizes, as far as its terms tell.
bool grows_as_much(const Expr& a, const Expr& b) {
  const ir::LinearForm own = linear_form(a), other = linear_form(b);
  return std::all_of(other.terms.begin(), other.terms.end(), [&](const ir::LinearForm::Term& term) {
    return std::any_of(own.terms.begin(), own.terms.end(), [&](const ir::LinearForm::Term& t) {
      return ir::equal(t.atom, term.atom) && t.coefficient >= term.coefficient;
    });
  });
}

/// Whether a band of that width may have fewer iterations than `widest`.
bool may_be_narrower(const Expr& width, const ir::Range& widest) {
  std::vector<Expr> widths, starts, ends;
  const auto* n = width.as<ir::Binary>();
  ir::collect_operands(n && n->op == BinaryOp::Max && ir::as_int(n->b) == 0 ? n->a : width, BinaryOp::Min, widths);
  ir::collect_operands(widest.lowest, BinaryOp::Max, starts);
  ir::collect_operands(widest.highest, BinaryOp::Min, ends);
  return std::any_of(widths.begin(), widths.end(), [&](const Expr& own) {
    return std::all_of(starts.begin(), starts.end(), [&](const Expr& start) {
      return std::none_of(ends.begin(), ends.end(), [&](const Expr& end) { return grows_as_much(own, end - start); });
    });
  });
}

/// A nest of parallel loops directly inside of each other, from the outermost one inwards.
class Nest {
 public:
  Stmt narrowed(const Stmt& s) {
    if (const auto* branch = s.as<ir::If>(); branch && !ir::has_load(branch->condition) && !branch->else_body) {
      const Stmt inside = narrowed(branch->then_body);
      return inside.same_as(branch->then_body) ? s : ir::if_then(branch->condition, inside, {}, branch->location);
    }
    const auto* loop = s.as<ir::For>();
    if (!loop || loop->mode != ir::LoopMode::Parallel || !is_total(loop->lower) || !is_total(loop->upper)) return s;
    const auto lower = ir::range_of(loop->lower, ranges_), upper = ir::range_of(loop->upper, ranges_);
    const auto known = lower && upper ? std::optional(ir::Range{lower->lowest, upper->highest}) : std::nullopt;
    const auto width = ir::band_width(loop->lower, loop->upper, [this](const Expr& e) { return is_fixed(e); });
    if (width && moves(*loop) && (!known || may_be_narrower(*width, *known)))
      return from_begin(*loop, simplify_indices(*width));
    if (known) enter(loop->iterator, known->lowest, known->highest);
    else around_.push_back(loop->iterator);
    const Stmt inside = narrowed(loop->body);
    return inside.same_as(loop->body) ? s : with_body(*loop, inside);
  }

 private:
  bool is_fixed(const Expr& e) const { return ir::is_fixed(e, around_); }
  bool moves(const ir::For& loop) const { return !is_fixed(loop.lower) || !is_fixed(loop.upper); }

  void enter(const ir::Symbol& iterator, const Expr& lower, const Expr& upper) {
    around_.push_back(iterator);
    ranges_.variables[iterator] = {lower, upper - ir::int_const(1)};
  }

  Stmt from_begin(const ir::For& loop, const Expr& extent) {
    const ir::Symbol place = ir::make_symbol(loop.iterator.name);
    const Expr at = loop.lower + ir::var(place);
    enter(place, ir::int_const(0), extent);
    const Stmt body = narrowed(ir::substitute(loop.body, {{loop.iterator, at}}));
    const Stmt inside = ir::if_then(ir::binary(BinaryOp::Lt, at, loop.upper), body, {}, loop.location);
    return ir::for_loop(place, ir::int_const(0), extent, inside, ir::LoopMode::Parallel, loop.location);
  }

  std::vector<ir::Symbol> around_;
  ir::RangeContext ranges_ = ir::ranges_in_variables();
};

}  // namespace

ir::Program narrow_bands(const ir::Program& program) {
  return ir::with_body(program, ir::rewrite(program.body, {}, [](const Stmt& s) -> std::optional<Stmt> {
                         return is_parallel_loop(s) ? std::optional(Nest().narrowed(s)) : std::nullopt;
                       }));
}

}  // namespace loopgrad::transforms
