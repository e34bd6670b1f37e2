// Recorded programs, those of libraries, and what the command line says of them.
#pragma once

#include <nanobind/nanobind.h>

namespace loopgrad::python {

void bind_programs(nanobind::module_& m);

}  // namespace loopgrad::python
