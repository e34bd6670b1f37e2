// Random steps of a user's schedule.
#pragma once

#include "transforms/pass/options.h"

#include <loopgrad/schedule.h>

namespace loopgrad::fuzz {

struct RandomSchedule {
  Schedule schedule;  // the steps that were allowed
  int refused = 0;    // with a TransformError or a UsageError, as the others must be
};

/// Tries so many random steps on a program that is lowered so. Throws what must not be thrown.
RandomSchedule random_schedule(const Program& program, std::uint64_t seed, int tries,
                               const transforms::LowerOptions& options = {});

}  // namespace loopgrad::fuzz
