// From statements of the IR to actions that run.
#pragma once

#include "backends/interpreter/machine.h"
#include "backends/interpreter/nodes.h"

namespace loopgrad::backend::interpreter {

/// The body of the machine's program. It refers to the machine, which must outlive it.
ActionPtr compile_body(Machine& machine);

}  // namespace loopgrad::backend::interpreter
