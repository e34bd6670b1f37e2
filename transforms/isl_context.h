// isl contexts with the pass's operation budget. Include from .cpp files only (isl is large).
#pragma once

#include "dsl/poly/isl_bridge.h"
#include "transforms/pass.h"

namespace loopgrad::transforms {

inline std::shared_ptr<poly::Context> isl_context(const PassContext& context) {
  return std::make_shared<poly::Context>(context.isl_budget ? context.isl_budget : poly::Context::default_budget);
}

}  // namespace loopgrad::transforms
