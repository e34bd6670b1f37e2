// Which loop should run along the threads: the one whose neighbouring iterations touch neighbouring elements.
#pragma once

#include "dsl/ir/queries.h"
#include "transforms/analysis/nest.h"

namespace loopgrad::transforms {

using ir::has_load;

/// The number of accesses at or below `s` that move by one element when `iterator` moves by one, minus those that jump.
/// An access inside further loops that move it counts as several.
int coalescing_score(const ir::Stmt& s, const ir::Symbol& iterator);

/// Which of the loops around `body` (not empty, outermost first) has the best score, the innermost of equals.
std::size_t best_along_threads(const ir::Stmt& body, const std::vector<const ir::For*>& loops);

}  // namespace loopgrad::transforms
