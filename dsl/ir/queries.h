// Small questions about expressions that every part asks.
#pragma once

#include "dsl/ir/visit.h"

namespace loopgrad::ir {

/// Whether the value depends on data: something in it is read from an array.
inline bool has_load(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& node) { found |= node.kind() == Kind::Load; });
  return found;
}

}  // namespace loopgrad::ir
