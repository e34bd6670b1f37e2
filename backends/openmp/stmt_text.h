// Statements of the IR as C++ text.
#pragma once

#include "backends/c_text/expr_text.h"
#include "backends/openmp/function_uses.h"

namespace loopgrad::backend {

/// The memory of a local array in a workspace: parts on cache lines of their own.
struct WorkspaceBlock {
  ir::Array array;
  bool per_thread = false;  // a part for each thread
};

/// The body of a generated function, indented by one level, and the workspace blocks that it uses.
struct BodyText {
  std::string text;
  std::vector<WorkspaceBlock> workspace_blocks;
  int timed_parts = 0;
};

/// `seconds`: the array that what each part takes (see backends/c_text/parts.h) is added to; empty: nothing is timed.
BodyText body_text(const ir::Program& program, const FunctionUses& uses, EmitState& state,
                   const std::string& seconds = {});

}  // namespace loopgrad::backend
