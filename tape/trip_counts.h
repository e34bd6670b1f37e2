// How often a loop runs at most, found by running the part of the program that decides it.
//
//   for i:                                   for i:
//     k = first[i]                             k = first[i]
//     while it < most, key[k] < x[i]:    ->    while it < most, key[k] < x[i]:
//       s += f(x[i], w[k])                       most_it max= it + 1
//       k = next[k]                              k = next[k]
//
// Guarantees: the same trips, as it computes what decides by the same statements on the same values.
// Rejects: loops about which floating-point values that the program computes decide, since that may take as long as the
// program itself, or an array that the caller gives and the program changes.
#pragma once

#include "dsl/ir/program.h"

#include <optional>
#include <vector>

namespace loopgrad::tape {

/// The body of a program that leaves in `most` (an i64 without dimensions that starts at 0) the largest number of trips
/// of `loop`, a loop of `program` inside of the statements `around` (outermost first).
std::optional<ir::Stmt> counting_trips(const ir::Program& program, const ir::Stmt& loop,
                                       const std::vector<ir::Stmt>& around, const ir::Array& most);

}  // namespace loopgrad::tape
