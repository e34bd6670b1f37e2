#include "backends/emit/emit.h"

#include "backends/emit/plan.h"

namespace loopgrad::backend {

EmittedFiles emit_files(const Gradient& gradient, const CompileOptions& options, const std::string& name) {
  const Backend& backend = backend_of(options.target);
  if (backend.interprets()) backend.source({gradient.backward.ir()}, {});  // which says that there is none
  return backend.files(emit_plan(gradient, options, name));
}

}  // namespace loopgrad::backend
