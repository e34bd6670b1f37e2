// What becomes of a nest of parallel loops: a kernel, or several of which sizes choose one. See map_to_gpu.h.
#pragma once

#include "transforms/analysis/analysed.h"
#include "transforms/pass/pass.h"

#include <utility>
#include <vector>

namespace loopgrad::transforms {

/// Values, and what conditions around a nest say that each is less than.
using KnownLimits = std::vector<std::pair<ir::Expr, std::int64_t>>;

/// `nest` is a For of the program whose iterations may run at once and whose bounds the host knows.
ir::Stmt map_nest(const Analysed& program, const ir::Stmt& nest, PassContext& context, const KnownLimits& below);

/// Threads of a block in which each works on its own: as the user wants it, else as usual.
std::int64_t flat_threads(const PassContext& context);

/// Reports what shape the code of `s` gets, and why.
void note_kernel(PassContext& context, const ir::Stmt& s, const char* shape, const std::string& reason);

}  // namespace loopgrad::transforms
