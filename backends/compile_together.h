// Several gradients as one compilation: for tools that compile many small programs, where starting the system compiler
// and reading its headers would cost more than the programs themselves.
#pragma once

#include <loopgrad/compile.h>

#include <vector>

namespace loopgrad::backend {

/// As `compile` for each gradient with its options, which agree in all but schedules and sizes. All programs of all
/// gradients have names of their own. What one of them throws, the whole throws.
std::vector<GradientExecutable> compile_together(const std::vector<Gradient>& gradients,
                                                 const std::vector<CompileOptions>& options);

}  // namespace loopgrad::backend
