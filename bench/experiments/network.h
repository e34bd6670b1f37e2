// A three-layer network, trained at growing widths.
#pragma once

#include "bench/experiments/operations.h"

namespace experiments {

/// [{"width", "target", "step_ms", "steps", "first_loss", "last_loss", "skipped"}]: a step is forward, backward and the
/// update of all weights, on one batch of 256 samples.
Json train_networks(const Settings& settings, const std::function<void(const std::string&)>& progress);

void compile_network(const Settings& settings);

}  // namespace experiments
