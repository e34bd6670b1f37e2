// Compiled programs and gradients as Python objects.
#pragma once

#include <loopgrad/compile.h>

#include <nanobind/nanobind.h>

namespace loopgrad::python {

/// From keywords. Throws UsageError for one that there is not.
CompileOptions options_of(const nanobind::kwargs& given);

void bind_running(nanobind::module_& m);

}  // namespace loopgrad::python
