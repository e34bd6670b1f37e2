// Which loops may advance through the loops inside of them side by side, an iteration in each lane: what tile_lanes
// acts upon.
#pragma once

#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/analyses.h"

#include <optional>
#include <set>

namespace loopgrad::transforms {

/// What depends on the lane: the iterator itself, locals of the iteration, and reads at lane-dependent places. Scalars
/// to which all iterations assign the same, whenever they get there, do not.
class LaneDependence {
 public:
  explicit LaneDependence(const ir::For& loop);

  bool on_iterator(const ir::Expr& e) const;
  bool on_data(const ir::Expr& e) const;
  bool any(const ir::Expr& e) const { return on_iterator(e) || on_data(e); }
  /// Whether all iterations add to one element: of an array from outside, at a place that no lane chooses. In a
  /// parallel loop no more than one of them does.
  bool is_shared(const ir::Reduce& sum) const;
  /// A shared extremum of one value for all iterations: once is enough.
  bool is_had_once(const ir::Reduce& sum) const;
  /// A scalar of the iteration that is the same for all of them.
  bool is_uniform(const ir::Array& array) const { return uniform_.count(array) > 0; }

 private:
  ir::Symbol lane_;
  bool is_sequential_;
  std::set<ir::Array> private_, uniform_;
};

/// Without loops, and without locals that are no scalars: it is done in one loop over lanes. A branch that is not is
/// gone through by all lanes together, each statement in it under its condition.
bool is_of_one_lane(const ir::Stmt& s);

/// How a loop does in lanes.
struct LaneLoop {
  std::int64_t widest = 1;       // bytes of the largest type that differs from lane to lane
  bool by_itself = false;        // its innermost loops move through memory as lanes do: each could be vectorised
  bool shares_sums = false;      // iterations add to elements that they have in common, and share nothing else
  bool parallel_inside = false;  // its innermost loops may be shared out
};

/// Null for loops without loops inside, in which an innermost statement would not move through memory with stride 0 or
/// 1 from lane to lane, whose inner bounds or branches around loops depend on data of the iteration, that changes what
/// its own bounds read, with `while`, or that is neither parallel nor shares nothing but sums, into elements that all
/// its iterations have in common. Of the latter, and of those with parallel loops inside, only loops whose innermost
/// loops are worse as they are.
std::optional<LaneLoop> lane_loop(const ir::Program& program, const ir::Stmt& loop, Analyses& analyses);

/// Fewer lanes are not worth it where there is another way.
inline constexpr std::int64_t least_lanes = 16;

/// Whether a sequential loop, if its iterations share nothing but sums, had rather be done in lanes: its innermost
/// loops jump through memory.
bool wants_lanes(const ir::For& loop);

/// The smallest and largest value of a bound over lanes first, ..., first + count - 1.
std::optional<ir::Range> over_lanes(const ir::Expr& e, const ir::Symbol& lane, const ir::Expr& first,
                                    const ir::Expr& count);

}  // namespace loopgrad::transforms
