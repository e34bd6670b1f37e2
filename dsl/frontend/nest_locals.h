// The Allocates of a body from its statements and the locals declared among them.
#pragma once

#include "dsl/ir/stmt.h"

#include <vector>

namespace loopgrad::ir {

struct DeclaredLocal {
  Array array;
  std::size_t before = 0;  // the statement that its declaration stands before
};

/// Statements in order, each local allocated around all that use it. A few locals nest as they are declared, to the end
/// of the body; many nest no deeper than the number that is in use at a time (and the logarithm of the others), so that
/// a body with a hundred thousand scalars is no nest of that depth.
Stmt nest_locals(const std::vector<Stmt>& statements, const std::vector<DeclaredLocal>& locals);

}  // namespace loopgrad::ir
