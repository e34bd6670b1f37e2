// Random steps of a user's schedule.
#pragma once

#include <loopgrad/schedule.h>

namespace loopgrad::fuzz {

struct RandomSchedule {
  Schedule schedule;  // the steps that were allowed
  int refused = 0;    // with a TransformError or a UsageError, as the others must be
};

/// Tries so many random steps on a program. Throws what must not be thrown.
RandomSchedule random_schedule(const Program& program, std::uint64_t seed, int tries);

}  // namespace loopgrad::fuzz
