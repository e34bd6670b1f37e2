// C++ errors as Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

namespace loopgrad::python {

/// From here on an Error of C++ is the class of that name in loopgrad.errors, with all that it knows as attributes.
void bind_errors();

}  // namespace loopgrad::python
