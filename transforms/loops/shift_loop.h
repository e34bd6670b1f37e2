// A loop whose bounds move along with an outer iterator, in terms of its distance from that.
//
//   for j in max(0, c - r)..min(n, c + 1):             for j in max(-c, -r)..min(n - c, 1):
//     s += g[j]*w[c - j + r]                    ->       s += g[j + c]*w[r - j]
//
// Iterations of the outer loop side by side then share the range -r..1 instead of 0..n.
// Returns nullopt where none of the terms of a bound moves along, or an access would not stay in place or move to the
// neighbour as the outer iterator moves by one. The statement has the loop's own iterator: copies need fresh names.
#pragma once

#include "dsl/ir/program.h"

#include <optional>

namespace loopgrad::transforms {

std::optional<ir::Stmt> shifted_along(const ir::For& loop, const ir::Symbol& outer);

}  // namespace loopgrad::transforms
