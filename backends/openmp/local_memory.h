// The memory of local arrays that outlive neither a call nor an iteration, as `Scratch` objects of the generated code.
#pragma once

#include "backends/c_text/code_text.h"
#include "backends/c_text/expr_text.h"
#include "backends/openmp/stmt_text.h"

namespace loopgrad::backend {

class LocalMemory {
 public:
  /// Both must outlive it.
  LocalMemory(EmitState& state, CodeText& code) : state_(state), code_(code) {}

  /// The object that holds an array.
  const std::string& name_of(const ir::Array& array);

  /// Declares the object as a block of the call's workspace and gives it memory for one array, or one for each thread.
  void reserve(const ir::Array& array, bool per_thread);
  /// `float* const x = x_memory.part(0);`
  void declare_pointer(const ir::Array& array, const char* part);
  /// The extents, as arguments.
  std::string extents(const ir::Array& array);

  /// The blocks of the workspace that were reserved, by number.
  const std::vector<WorkspaceBlock>& blocks() const { return blocks_; }

 private:
  std::string checked_text(const ir::Expr& e);

  EmitState& state_;
  CodeText& code_;
  std::map<ir::Array, std::string> names_;
  std::vector<WorkspaceBlock> blocks_;
};

}  // namespace loopgrad::backend
