// What the parts of a gradient take on this machine.
#pragma once

#include "tools/cli/options.h"

#include <nlohmann/json.hpp>

namespace loopgrad::cli {

/// {forward, backward}: microseconds of each part, in the order of `parts` of an explanation, as means of several runs.
/// Null for targets whose parts are not timed.
nlohmann::ordered_json time_parts(const Options& options);

}  // namespace loopgrad::cli
