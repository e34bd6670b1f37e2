// The user's line, as errors and explanations name it.
#pragma once

#include <loopgrad/types.h>

namespace loopgrad::python {

/// The innermost Python frame that is not of this package, or nothing known.
SourceLocation caller();

/// Frames of files below this folder are the package's own.
void set_package_folder(const char* folder);

}  // namespace loopgrad::python
