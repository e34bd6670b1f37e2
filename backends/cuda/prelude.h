// What every generated CUDA source begins with: types and helpers, since NVRTC has no standard headers.
#pragma once

#include "backends/c_text/prelude.h"

namespace loopgrad::backend {

std::string cuda_prelude(const std::set<Helper>& used, bool block_reduce, bool wide, bool stack);

}  // namespace loopgrad::backend
