// The helpers of generated C++ for CPUs: those of all targets, and those that only the system's compiler takes.
#pragma once

#include "backends/c_text/prelude.h"

namespace loopgrad::backend {

/// The definitions of `used` and of what those use, in a fixed order.
std::string openmp_helpers(const std::set<Helper>& used);

}  // namespace loopgrad::backend
