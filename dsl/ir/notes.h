// Notes of what went wrong, which a program makes beside what it computes (see transforms/bounds/bound_accesses.h).
#pragma once

#include "dsl/ir/stmt.h"

namespace loopgrad::ir {

/// An atomic extremum of integers in an argument: it has the same bits in whatever order, so that notes of one element
/// keep no loop in order, and are no sum that anything has to restructure.
inline bool is_note(const Stmt& s) {
  const auto* n = s.as<Reduce>();
  return n && n->atomic && is_integer(n->array->type) && n->array->role == ArrayRole::InOut &&
         (n->op == ReduceOp::Max || n->op == ReduceOp::Min);
}

}  // namespace loopgrad::ir
