// A kernel without its statements: what it is launched with, and how it is declared.
#pragma once

#include "backends/cuda/emitter.h"
#include "backends/cuda/kernel_scope.h"
#include "dsl/ir/queries.h"

#include <set>

namespace loopgrad::backend {

struct KernelFrame {
  CudaKernel kernel;                 // `locals` follow from the text of the statements
  ir::Stmt root;                     // the statements, where locals of the host are arguments
  ir::Stmt in_block;                 // those inside the Grid loops; null when there are none
  std::vector<ir::Array> arguments;  // `kernel.arrays` as `root` names them
  std::set<ir::Array> written, aliased;
  std::set<ir::Array> exchanged;  // by the threads of a block
};

/// `s` is a nest of Grid loops, or any statement for a kernel of one thread.
KernelFrame kernel_frame(const ir::Program& program, const ir::Stmt& s, const std::string& name);

/// Gives the arguments their names, and notes what is known about those that the host computes.
void declare_arguments(const ir::Program& program, const KernelFrame& frame, KernelScope& scope);

/// `__launch_bounds__(256) `, or "" for a kernel of one thread. `any_width`: with `column_blocks` (see
/// CudaUnit::source) where registers are left for many blocks.
std::string launch_bounds_text(const KernelFrame& frame, bool any_width);

/// Between the parentheses of the kernel's declaration, once its locals are known.
std::string parameters_text(const KernelFrame& frame, KernelScope& scope);

}  // namespace loopgrad::backend
