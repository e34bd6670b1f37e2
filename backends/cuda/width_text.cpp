#include "backends/cuda/width_text.h"

#include "backends/emit/size_text.h"

#include <fmt/format.h>

namespace loopgrad::backend {

const char* const interval_text = "";

std::string width_text(const EmitPlan& plan, const EmitPart&, const std::string& name) {
  return fmt::format("\ninline bool {}({}) {{ return false; }}\n", name, size_parameters(plan, "[[maybe_unused]] int64_t"));
}

}  // namespace loopgrad::backend
