// Which loops may run in vector lanes: what vectorize_loops acts upon.
#pragma once

#include "dsl/ir/program.h"

#include <set>
#include <string>
#include <vector>

namespace loopgrad::transforms {

struct LanePlan {
  bool fits = false;
  std::string why_not;          // a clause, where it does not fit
  std::vector<ir::Array> sums;  // scalars from outside that a sequential loop reduces into, by declaration
};

/// Whether the iterations of a loop may run side by side, and whether that is likely to pay: straight-line code and
/// branches that mostly move through memory one element at a time; and the loop is parallel, or its iterations share
/// nothing but scalars that they reduce into (numbers of 32 or 64 bits, in an order of the compiler's choice that is
/// the same in every run). Then the order of the iterations is free too. `aliased`: arrays that share memory. `shared`:
/// scalars that iterations of a parallel loop around share. At most one of those iterations sums into them, but all
/// would add up their lanes at the end, so such sums take none.
LanePlan plan_lanes(const ir::For& loop, const std::set<ir::Array>& aliased, const std::set<ir::Array>& shared);

/// Whether the loop does nothing but eight sums into scalars of one type, f32 or f64, from products and the like of
/// elements that stay or move on by one, as jam_sums makes them: then the lanes of all sums can be added up at once.
/// Requires that it fits into lanes.
bool is_eight_sums(const ir::For& loop);

}  // namespace loopgrad::transforms
