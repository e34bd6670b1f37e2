// Sources that a user compiles: a gradient as one C++ or CUDA file with a C interface, which needs no loopgrad to run.
#pragma once

#include "backends/emit/plan.h"

namespace loopgrad::backend {

/// `name`: of the files and of all functions. `options.facts`: whether forward and backward verify what the program
/// states; Facts::Trust leaves that to the caller and NAME_check.
///
/// The functions do the same as those that `compile` makes, with the same bits. Throws UsageError for what has no
/// source: the interpreter, a naive tape, facts that only the interpreter can verify.
EmittedFiles emit_files(const Gradient& gradient, const CompileOptions& options, const std::string& name);

}  // namespace loopgrad::backend
