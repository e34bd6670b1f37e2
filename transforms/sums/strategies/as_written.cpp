// The strategies that leave a sum as it is written: in order, or with atomic operations.
#include "transforms/sums/strategies.h"

namespace loopgrad::transforms {

namespace {

std::optional<std::string> not_repeatable(SumNest&, const SumGroup&, std::vector<ir::Array>&) {
  return "not repeatable: only in the variant 'atomic'";
}
std::optional<std::string> last_resort(SumNest&, const SumGroup&, std::vector<ir::Array>&) { return std::nullopt; }

PlanCandidate atomic_cost(SumCosts& costs, const SumGroup& group) { return costs.atomic(group.sums); }
PlanCandidate serial_cost(SumCosts& costs, const SumGroup& group) { return costs.serial(group.sums); }

}  // namespace

const SumStrategy atomic_strategy = {.strategy = Strategy::Atomic, .obstacle = not_repeatable, .cost = atomic_cost};

const SumStrategy serial_strategy = {.strategy = Strategy::Serial, .obstacle = last_resort, .cost = serial_cost};

}  // namespace loopgrad::transforms
