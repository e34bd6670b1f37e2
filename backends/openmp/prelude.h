// The helpers of generated C++ for CPUs: those of all targets, and those that only the system's compiler takes.
#pragma once

#include "backends/c_text/prelude.h"

namespace loopgrad::backend {

/// Whose the blocks of a workspace are: the runtime's, which lets them grow, or a caller's, of the bytes that they
/// have.
enum class WorkspaceOf { Runtime, Caller };

/// The definitions of `used` and of what those use, in a fixed order.
std::string openmp_helpers(const std::set<Helper>& used, WorkspaceOf owner = WorkspaceOf::Runtime);

}  // namespace loopgrad::backend
