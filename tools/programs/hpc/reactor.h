// The materials of a reactor, for programs that look up their cross-sections.
#pragma once

#include "tools/support/random.h"

#include <loopgrad/main.h>

namespace loopgrad::programs {

constexpr int kMaterials = 12;

/// Contents for `num_nucs`, `mats` and `concs` of a reactor with so many nuclides, of which a material has at most
/// `most`, and for `energy` and `material` of events.
/// Fuel of many nuclides, cladding, cold and hot water, and parts of the vessel, with how many nuclides they have and
/// how likely an event is in them; which nuclides they are is random.
void fill_materials(std::int64_t nuclides, std::int64_t most, tools::Random& random, InputArrays& arrays);

}  // namespace loopgrad::programs
