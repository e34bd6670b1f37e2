// Compiled programs and gradients as Python objects.
#pragma once

#include <nanobind/nanobind.h>

namespace loopgrad::python {

void bind_running(nanobind::module_& m);

}  // namespace loopgrad::python
