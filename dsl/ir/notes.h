// Atomic sums that have the same bits in whatever order they are done: they keep no loop in order, and nothing has to
// restructure them.
#pragma once

#include "dsl/ir/stmt.h"

namespace loopgrad::ir {

/// An atomic extremum of integers in an argument: a note of what went wrong, which a program makes beside what it
/// computes (see transforms/bounds/bound_accesses.h).
inline bool is_note(const Stmt& s) {
  const auto* n = s.as<Reduce>();
  return n && n->atomic && is_integer(n->array->type) && n->array->role == ArrayRole::InOut &&
         (n->op == ReduceOp::Max || n->op == ReduceOp::Min);
}

/// A note, or an atomic sum of whole numbers or extremum of numbers into an array of the program's own. (Numbers that
/// an extremum compares must not be NaN.)
inline bool is_order_free(const Stmt& s) {
  const auto* n = s.as<Reduce>();
  if (!n || !n->atomic || n->array->role != ArrayRole::Local) return is_note(s);
  const bool is_extremum = n->op == ReduceOp::Max || n->op == ReduceOp::Min;
  return is_extremum || (n->op == ReduceOp::Add && is_integer(n->array->type));
}

}  // namespace loopgrad::ir
