// Whether a run's indices fit in 32 bits, as code of an emitted source: has_narrow_indices (index_width.h), printed.
#pragma once

#include "backends/emit/plan.h"

namespace loopgrad::backend {

/// The C++ type `Interval`: what an integer can be, and whether all steps on the way to it were narrow.
extern const char* const interval_text;

/// `inline bool NAME(int64_t n_, ..)`.
std::string width_text(const EmitPlan& plan, const EmitPart& part, const std::string& name);

}  // namespace loopgrad::backend
