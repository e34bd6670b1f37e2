// Checks that a program is well formed. Run after every pass in Debug builds and in the tests.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::ir {

/// Checks: every variable is a size or an iterator of an enclosing loop; every array is declared by the program or an
/// enclosing Allocate; ranks and types agree; inputs are never written; parallel loops contain no Push or Pop;
/// iterators and local arrays are declared once; the shapes of loops fit their bounds; of a mapped program, that each
/// local is used by those who share it (Home) and that all threads take part in what they combine. Throws InternalError
/// naming `after` and the offending node.
void verify(const Program& program, const std::string& after);

}  // namespace loopgrad::ir
