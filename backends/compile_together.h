// Several gradients as one compilation: for tools that compile many small programs, where starting the system compiler
// and reading its headers would cost more than the programs themselves.
#pragma once

#include <loopgrad/compile.h>

#include <functional>
#include <vector>

namespace loopgrad::backend {

/// What each part of a gradient's programs (see c_text/parts.h) took so far, in seconds; nothing where the target times
/// none.
struct PartTimes {
  std::function<std::vector<double>()> forward, backward;
};

/// As `compile` for each gradient with its options, which agree in all but schedules and sizes. All programs of all
/// gradients have names of their own. What one of them throws, the whole throws.
/// With `times` their parts are timed, which adds about 50 ns to each run of a part.
std::vector<GradientExecutable> compile_together(const std::vector<Gradient>& gradients,
                                                 const std::vector<CompileOptions>& options,
                                                 std::vector<PartTimes>* times = nullptr);

}  // namespace loopgrad::backend
