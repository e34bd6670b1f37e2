// The host's part of a mapped program as C++ of an emitted source: what cuda::Executor executes, printed.
#pragma once

#include "backends/cuda/emitter.h"
#include "backends/emit/plan.h"

namespace loopgrad::backend {

/// `inline void NAME(Run& run, sizes.., bool stale, const void* x_, ..)`, for a `Run` of emitted_runtime.h.
struct HostText {
  std::string definition;
  int slots = 0;       // of memory, for local arrays
  int most_words = 0;  // parameters of a kernel
  bool uses_products = false;
};

HostText host_text(const EmitPlan& plan, const EmitPart& part, const std::vector<CudaKernel>& kernels,
                   const std::string& name, bool any_form);

}  // namespace loopgrad::backend
