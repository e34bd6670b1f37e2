// One kernel of a mapped program as CUDA C++.
#pragma once

#include "backends/c_text/prelude.h"
#include "backends/cuda/emitter.h"

namespace loopgrad::backend {

struct KernelText {
  CudaKernel kernel;
  std::string definition;
  std::set<Helper> helpers;
  bool uses_block_reduce = false;
  bool uses_wide_accesses = false;
};

/// `s` is a nest of Grid loops, or any statement for a kernel of one thread. `any_width`: its indices are `index_t`,
/// not `int64_t`.
KernelText kernel_text(const ir::Program& program, const ir::Stmt& s, const std::string& name, bool any_width);

}  // namespace loopgrad::backend
