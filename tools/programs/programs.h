// The built-in programs: each written once as a primal program in a file of its own.
#pragma once

#include <loopgrad/main.h>

#include <vector>

namespace loopgrad::programs {

ProgramEntry conv1d();
ProgramEntry matmul();
ProgramEntry mlp();
ProgramEntry softmax();
ProgramEntry heat2d();
ProgramEntry histogram();
ProgramEntry embedding();
ProgramEntry gat();
ProgramEntry cholesky();
ProgramEntry recurrence();

/// All of them, in the order of `loopgrad list`.
std::vector<ProgramEntry> all();

}  // namespace loopgrad::programs
