// Large expressions of sizes that a program repeats get a name, computed once at the start of the function.
//
//     for b in 0..max(min(64, n/4), 1): ...            b_end = max(min(64, n/4), 1)
//     for c in 0..max(min(64, n/4), 1): ...      ->    for b in 0..b_end: ...
//                                                      for c in 0..b_end: ...
//
// For people who read the generated code; compilers find the repetition by themselves.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::backend {

struct NamedExtent {
  ir::Symbol symbol;
  ir::Expr value;  // in sizes and the names before it
};

struct NamedExtents {
  ir::Program program;
  std::vector<NamedExtent> extents;  // in the order in which they are to be computed
};

NamedExtents name_extents(const ir::Program& program);

}  // namespace loopgrad::backend
