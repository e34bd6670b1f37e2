// Which loop should run along the threads: the one whose neighbouring iterations touch neighbouring elements.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

bool has_load(const ir::Expr& e);
bool is_parallel_loop(const ir::Stmt& s);

/// The number of accesses at or below `s` that move by one element when `iterator` moves by one, minus those that jump.
/// An access inside further loops that move it counts as several.
int coalescing_score(const ir::Stmt& s, const ir::Symbol& iterator);

}  // namespace loopgrad::transforms
