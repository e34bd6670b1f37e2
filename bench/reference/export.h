// Inputs and results as files, so that programs in other languages can be checked against ours.
#pragma once

#include "bench/reference/cases.h"

#include <loopgrad/compile.h>

namespace loopgrad::bench {

/// Writes folder/cases.json, a list of {"program", "sizes", "wrt", "of", "arrays", "results"}, and the arrays as raw
/// bytes beside it. The latter two are {name: {"type", "shape", "file"}}: inputs and incoming gradients, and what the
/// restructured variant makes of them, outputs and gradients. An in-out is in both.
void export_data(const std::vector<Case>& cases, std::uint64_t seed, const std::string& folder,
                 const CompileOptions& options = {});

}  // namespace loopgrad::bench
