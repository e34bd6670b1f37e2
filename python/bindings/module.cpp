// The extension module of the package loopgrad.
#include "errors.h"
#include "ffi.h"
#include "location.h"
#include "programs.h"
#include "running.h"
#include "values.h"

#include <nanobind/nanobind.h>

namespace lp = loopgrad::python;

NB_MODULE(_core, m) {
  m.attr("__version__") = LOOPGRAD_VERSION;
  m.doc() = "Gradients of loop programs: what the package loopgrad is made of.";
  nanobind::set_leak_warnings(false);  // modules that are never unloaded hold on to programs
  lp::bind_errors();
  lp::bind_values(m);
  lp::bind_recording(m);
  lp::bind_programs(m);
  lp::bind_running(m);
  lp::bind_ffi(m);
  m.def("_set_package_folder", [](const char* folder) { lp::set_package_folder(folder); });
}
