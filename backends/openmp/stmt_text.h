// Statements of the IR as C++ text.
#pragma once

#include "backends/c_text/expr_text.h"
#include "backends/openmp/function_uses.h"

namespace loopgrad::backend {

/// The body of a generated function, indented by one level, and the workspace blocks that it uses.
struct BodyText {
  std::string text;
  int workspace_blocks = 0;
};

BodyText body_text(const ir::Program& program, const FunctionUses& uses, EmitState& state);

}  // namespace loopgrad::backend
