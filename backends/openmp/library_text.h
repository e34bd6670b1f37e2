// How emitted sources come to a BLAS: linked by name, and run on one thread while products are shared out to threads.
#pragma once

#include <string>

namespace loopgrad::backend {

/// What stands before everything, at global scope. `macro`: NAME, as in NAME_NO_BLAS.
std::string library_declarations(const std::string& macro);
/// The class `Library`, after `loopgrad_blas`.
std::string library_session(const std::string& macro);

}  // namespace loopgrad::backend
