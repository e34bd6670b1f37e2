#include "tools/fuzz/check_plan.h"

#include "tools/support/random.h"

namespace loopgrad::fuzz {

Plan::Plan(std::uint64_t seed, bool everything) {
  tools::Random random(seed * 7 + 5);
  const auto chance = [&](std::int64_t percent) { return random.below(100) < percent || everything; };
  primal_cpu = chance(40);
  primal_gpu = chance(30);
  primal_atomic = chance(15);
  cpu = chance(60);
  gpu = chance(35);
  atomic = chance(25);
  atomic_lowered = chance(50);
  schedule = chance(12);
  schedule_backward = random.below(2) == 0;
  false_fact = chance(30);
  twice = chance(8);
  // Drawn apart, so that what was drawn before they were there stays as it is.
  tools::Random modes(seed * 17 + 9);
  const auto mode = [&](std::int64_t percent) { return modes.below(100) < percent || everything; };
  tangent_cpu = mode(20);
  tangent_gpu = mode(15);
  at_once = mode(20);
  at_once_form = modes.below(3);
  budget = mode(25);
  budget_form = modes.below(3);
  budget_bytes = std::int64_t{1} << modes.below(13);
  bounded_cpu = mode(15);
  bounded_gpu = mode(25);
  broken_promise = mode(60);
  accumulated = mode(20);
  accumulated_form = everything ? 0 : modes.below(3);
  tools::Random lowerings(seed * 41 + 23);
  const auto lowering = [&](std::int64_t percent) { return lowerings.below(100) < percent || everything; };
  wide_gpu = lowering(15);
  bounded_gradient = lowering(20);
  schedule_form = lowerings.below(2) == 0 ? Form::Cpu : Form::Gpu;
}

}  // namespace loopgrad::fuzz
