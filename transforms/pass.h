// What passes share.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/pipeline.h"

namespace loopgrad::transforms {

struct PassContext {
  SumMode mode = SumMode::Restructured;
  Report& report;
};

/// A pass: a function from program to program that adds its decisions to the report.
using PassFunction = ir::Program (*)(const ir::Program&, PassContext&);

struct Pass {
  const char* name;
  PassFunction run;
  const char* why_here;
};

/// The passes of a mode, in the order in which `lower` runs them.
std::vector<Pass> passes(SumMode mode);

}  // namespace loopgrad::transforms
