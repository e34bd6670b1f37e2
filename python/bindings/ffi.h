// Programs as operations of XLA, which JAX calls without Python.
#pragma once

#include <nanobind/nanobind.h>

namespace loopgrad::python {

void bind_ffi(nanobind::module_& m);

}  // namespace loopgrad::python
