// Which elements statements have set before they read them, as far as their text alone tells.
#pragma once

#include "dsl/ir/stmt.h"

#include <set>

namespace loopgrad::ir {

/// Those of `candidates` of which a value, or a sum into them, in `s` may read an element that `s` has not set itself.
/// Understood are elements that are set by an Assign with the same indices further up, in whatever branches and loops,
/// and arrays that loops over all of their elements set:
/// ```
///   for i in 0..n: z[i] = 0              z is set
///   for k in 0..100 while e > 0.1:
///     for i in 0..n: next[i] = f(z[i])
///     for i in 0..n: z[i] = next[i]
/// ```
/// Conditions, bounds and indices are not looked at.
std::set<Array> read_before_set_in_text(const Stmt& s, const std::set<Array>& candidates);

}  // namespace loopgrad::ir
