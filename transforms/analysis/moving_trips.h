// How often loops run whose bounds move with the loops around them.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/symbolic/ranges.h"

#include <vector>

namespace loopgrad::transforms {

/// Trips of loops in what does not move with the loops around them: the width of a band (2*r + 1 for max(i - r, 0)..
/// min(i + r + 1, n)), and half of the most that there may be for others, as in triangles.
class MovingTrips {
 public:
  /// `iterators`, of the loops that are gone through, may grow.
  explicit MovingTrips(const std::vector<ir::Symbol>& iterators) : iterators_(iterators) {}

  /// `trips`, where they are that already; null: nothing is known of them. To be asked from the outermost loop inwards.
  ir::Expr of(const ir::For& loop, const ir::Expr& trips);

 private:
  bool is_fixed(const ir::Expr& e) const;

  const std::vector<ir::Symbol>& iterators_;
  ir::RangeContext ranges_ = ir::ranges_in_variables();
};

}  // namespace loopgrad::transforms
