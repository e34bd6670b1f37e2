// Which checks a program gets.
#pragma once

#include "tools/fuzz/execution.h"

namespace loopgrad::fuzz {

/// What is done with a program, drawn from its seed: that the analyses of all forms take most of the time is why one
/// program does not get them all.
struct Plan {
  Plan(std::uint64_t seed, bool everything);
  bool primal_cpu, primal_gpu, primal_atomic, cpu, gpu, atomic, atomic_lowered;
  bool schedule, schedule_backward, false_fact, twice;
  bool tangent_cpu, tangent_gpu, at_once, budget, bounded_cpu, bounded_gpu;
  bool broken_promise, accumulated, wide_gpu, bounded_gradient;
  Form schedule_form;
  std::int64_t accumulated_form, at_once_form, budget_form, budget_bytes;
};

}  // namespace loopgrad::fuzz
