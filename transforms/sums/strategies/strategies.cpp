#include "transforms/sums/strategies.h"

#include <algorithm>

namespace loopgrad::transforms {

const std::vector<const SumStrategy*>& sum_strategies() {
  static const std::vector<const SumStrategy*> all = {&gather_strategy,   &partials_strategy, &split_strategy,
                                                      &atomic_strategy,   &serial_strategy,   &exact_strategy,
                                                      &segments_strategy, &apart_strategy};
  return all;
}

const SumStrategy& strategy(Strategy which) {
  const auto& all = sum_strategies();
  const auto found = std::find_if(all.begin(), all.end(), [&](const SumStrategy* s) { return s->strategy == which; });
  if (found == all.end()) throw InternalError("no strategy does such sums");
  return **found;
}

}  // namespace loopgrad::transforms
