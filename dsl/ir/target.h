// What a statement stores to.
#pragma once

#include "dsl/ir/stmt.h"

namespace loopgrad::ir {

/// The array of an assignment or a sum, or null for any other statement.
inline Array target_of(const Stmt& s) {
  if (const auto* n = s.as<Assign>()) return n->array;
  if (const auto* n = s.as<Reduce>()) return n->array;
  return {};
}

}  // namespace loopgrad::ir
