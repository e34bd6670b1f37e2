// The CUDA source behind the C interface of emit/interface_text.h.
#pragma once

#include "backends/emit/interface_text.h"

namespace loopgrad::backend {

InterfaceWords cuda_interface(const EmitPlan& plan);

/// NAME.cu: CUDA C++17 that includes NAME.h, the CUDA runtime, cuBLAS where products may be its, and the standard
/// library. The kernels are those that NVRTC compiles; see emitted_runtime.h for the host's part. Gives out all
/// statuses of the plan.
std::string cuda_source(const EmitPlan& plan);

}  // namespace loopgrad::backend
