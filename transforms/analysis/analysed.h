// A program together with what is known of it.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

class Analyses;

/// What functions take that ask for dependences in a program. Refers to both.
struct Analysed {
  const ir::Program& program;
  Analyses& analyses;  // see analyses.h

  operator const ir::Program&() const { return program; }
  const ir::Program* operator->() const { return &program; }
};

}  // namespace loopgrad::transforms
