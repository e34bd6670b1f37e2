// What the text of a function needs around its statements: parameters, and memory that is reserved before a loop.
#pragma once

#include "dsl/ir/program.h"

#include <map>
#include <vector>

namespace loopgrad::backend {

struct FunctionUses {
  bool stack = false;         // pushes or pops
  bool threads = false;       // runs something in parallel
  bool contractions = false;  // may call a matrix library
  bool heap = false;          // reserves memory from the workspace
  bool can_fail = false;      // for want of memory, inside of a parallel region
  std::map<const ir::StmtNode*, std::vector<ir::Stmt>> reserved_before;  // the Allocates of a loop, in textual order
};

/// Of a program whose arrays have places (transforms/map/cpu). Throws InternalError for one that has none.
FunctionUses uses_of(const ir::Program& program);

}  // namespace loopgrad::backend
