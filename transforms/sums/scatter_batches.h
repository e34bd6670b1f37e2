// Neighbouring scatters that may be done in any order, by the orders that serve them.
//
//   for e in 0..m: h[left[e]] -= f[e]           by left:  h -= f, p -= g
//   for e in 0..m: h[right[e]] += f[e]    ->    by right: h += f
//   for e in 0..m: p[left[e]] -= g[e]
#pragma once

#include "transforms/sums/segment_sums.h"

#include <functional>

namespace loopgrad::transforms {

/// Nests that one order serves, and what they are.
struct Run {
  std::vector<ir::Stmt> nests;
  std::vector<Scatter> scatters;
};

/// They are summed up together.
struct Batch {
  std::vector<Run> runs;

  std::size_t size() const;
  std::vector<ir::Stmt> nests() const;
};

/// Of the statements from `first` on, as many as are such scatters, by the plan `segments`, up to what registers hold
/// of their sums. Those that are shared out already, or that `stays_alone` says, make a batch by themselves. Empty
/// where the first one is none.
Batch batch_of(const ir::Program& program, const std::vector<ir::Stmt>& body, std::size_t first,
               const SortShares& shares, const std::function<bool(const Scatter&)>& stays_alone);

}  // namespace loopgrad::transforms
