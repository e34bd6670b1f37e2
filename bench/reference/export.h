// Inputs and results as files, so that programs in other languages can be checked against ours.
#pragma once

#include "bench/reference/cases.h"

namespace loopgrad::bench {

/// Writes folder/cases.json, a list of {"program", "sizes", "wrt", "of", "arrays": {name: {"type", "shape", "file"}}},
/// and the arrays as raw bytes beside it: inputs, incoming gradients, and the results of the restructured variant.
void export_data(const std::vector<Case>& cases, std::uint64_t seed, const std::string& folder);

}  // namespace loopgrad::bench
