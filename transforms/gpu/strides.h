// Which loop should run along the threads: the one whose neighbouring iterations touch neighbouring elements.
#pragma once

#include "dsl/ir/queries.h"
#include "transforms/nest.h"

namespace loopgrad::transforms {

using ir::has_load;

/// The number of accesses at or below `s` that move by one element when `iterator` moves by one, minus those that jump.
/// An access inside further loops that move it counts as several.
int coalescing_score(const ir::Stmt& s, const ir::Symbol& iterator);

}  // namespace loopgrad::transforms
