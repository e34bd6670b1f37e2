// Programs as they run on a target.
#pragma once

#include "backends/lowering.h"
#include "tools/cli/options.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/program.h>

namespace loopgrad::cli {

/// What the command line says of compiling. `sizes`: those that the estimates of plans are based on.
CompileOptions compile_options(const Options& options, Target fallback, const Sizes& sizes);

int count_parallel_loops(const ir::Program& program);
int count_atomics(const ir::Program& program);

}  // namespace loopgrad::cli
