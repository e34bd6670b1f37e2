// The C++ source behind the C interface of emit/interface_text.h.
#pragma once

#include "backends/emit/interface_text.h"

namespace loopgrad::backend {

InterfaceWords openmp_interface(const EmitPlan& plan);

/// NAME.cpp: standard C++20 with OpenMP that includes NAME.h and nothing else but the standard library and omp.h. The
/// functions that do the work are those that the JIT compiles. Gives out all statuses of the plan.
std::string openmp_source(const EmitPlan& plan);

}  // namespace loopgrad::backend
