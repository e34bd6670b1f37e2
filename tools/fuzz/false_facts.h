// Facts that do not hold.
#pragma once

#include "tools/fuzz/case.h"

#include <optional>

namespace loopgrad::fuzz {

/// Changes the contents of one index array so that a fact about it is false; the seed chooses which. Gives the array's
/// name, or nothing where no fact can be broken (none is stated, or arrays are too short).
std::optional<std::string> break_a_fact(const Case& c, Arrays& arrays);

}  // namespace loopgrad::fuzz
