// Applies the user's Schedule: the step between the summation plan and automatic parallel loops.
//
// Requires: nothing. Guarantees: the result verifies and computes the same up to the rounding of sums that a step
// exchanges, which gives a remark. Throws TransformError for an illegal step and UsageError for one that makes no
// sense, both naming the step.
#pragma once

#include "transforms/analysis/analysed.h"
#include "transforms/pass/pass.h"

#include <loopgrad/schedule.h>

namespace loopgrad::transforms {

ir::Program apply_schedule(const ir::Program& program, PassContext& context);

/// One step. `report` gets remarks.
ir::Program apply_step(const Analysed& program, const Schedule::Step& step, Report& report);
ir::Program apply_step(const ir::Program& program, const Schedule::Step& step, Report& report);

}  // namespace loopgrad::transforms
