// The built-in programs: each written once as a primal program in a file of its own.
#pragma once

#include <loopgrad/main.h>

#include <string>
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
ProgramEntry conv2d();
ProgramEntry layernorm();
ProgramEntry wave3d();
ProgramEntry burgers();
ProgramEntry tanh_chain();
ProgramEntry window_attention();
ProgramEntry lstm();
ProgramEntry csr_sum();
ProgramEntry longformer();
ProgramEntry subdivnet();
ProgramEntry softras();
ProgramEntry softras_render();
ProgramEntry march();
ProgramEntry splat();
ProgramEntry gmm();
ProgramEntry ba();
ProgramEntry xsbench();
ProgramEntry lbm();
ProgramEntry dg();
ProgramEntry lulesh();
ProgramEntry rsbench();
ProgramEntry hand();
/// add, broadcast, copy, divide, exp, log, max, multiply, negate, power, relu, subtract, sum, transpose.
std::vector<ProgramEntry> ops();

/// All of them, in the order of `loopgrad list`.
std::vector<ProgramEntry> all();
/// The one of this name. Throws std::out_of_range where there is none.
ProgramEntry named(const std::string& name);

}  // namespace loopgrad::programs
