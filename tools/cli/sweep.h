// Several values of one size, as the command line says them.
#pragma once

#include "tools/cli/options.h"

namespace loopgrad::cli {

/// "n=1e3..1e6": two values for each power of ten, and both ends; "n=1e3..1e6:4": so many, in equal ratios. Throws
/// UsageError for what is none, and for a size that the program has not.
Sweep parse_sweep(const std::string& text, const ProgramEntry& program);

}  // namespace loopgrad::cli
