#include "transforms/analysis/moving_trips.h"

#include "dsl/ir/queries.h"
#include "dsl/symbolic/linear_form.h"

namespace loopgrad::transforms {

using ir::Expr;

bool MovingTrips::is_fixed(const Expr& e) const { return ir::is_fixed(e, iterators_); }

Expr MovingTrips::of(const ir::For& loop, const Expr& trips) {
  if (ir::has_load(loop.lower) || ir::has_load(loop.upper)) return is_fixed(trips) ? trips : Expr();
  const auto lower = ir::range_of(loop.lower, ranges_), upper = ir::range_of(loop.upper, ranges_);
  if (lower && upper) ranges_.variables[loop.iterator] = {lower->lowest, upper->highest - ir::int_const(1)};
  if (is_fixed(trips)) return trips;
  const auto fixed = [this](const Expr& e) { return is_fixed(e); };
  if (const auto width = ir::band_width(loop.lower, loop.upper, fixed)) return simplify_indices(*width);
  const auto most = ir::range_of(trips, ranges_);
  if (!most || !is_fixed(most->highest)) return {};
  return ir::binary(ir::BinaryOp::FloorDiv, simplify_indices(most->highest), ir::int_const(2));
}

}  // namespace loopgrad::transforms
