// What a parallel loop uses from outside: the parameters of its body.
#pragma once

#include "dsl/ir/program.h"

#include <set>

namespace loopgrad::backend {

struct Region {
  struct Use {
    ir::Array array;
    bool written = false;
  };
  std::vector<Use> arrays;        // those in memory, in order of declaration
  std::vector<ir::Array> shared;  // C++ variables (locals of rank 0) that the iterations write, that is, atomically
};

/// `in_place` are the locals allocated inside that need no memory from outside.
Region region_of(const ir::For& loop, const std::set<ir::Array>& in_place);

}  // namespace loopgrad::backend
