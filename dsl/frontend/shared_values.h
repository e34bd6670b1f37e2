// Names for values that a large recorded expression uses more than once.
//
// A Value is a shared node: after `t = t*t + t` in C++, sixteen times over, one recorded expression of forty nodes
// stands for a tree of a hundred thousand, and every stage walks trees. Shared values of a large tree therefore become
// local scalars, assigned directly before the statement, as a person would have written them.
#pragma once

#include "dsl/ir/stmt.h"

#include <vector>

namespace loopgrad::ir {

struct SharedValues {
  struct Local {
    Array array;  // a scalar
    Expr value;   // in terms of earlier locals
  };
  std::vector<Local> locals;  // in order of evaluation
  Expr result;
};

/// Splits `value` when its tree has more than `largest_tree` nodes; otherwise returns it unchanged, with no locals.
/// Only floating-point values that are surely evaluated are named: an operand of `select`, `&&` or `||` may be guarded.
SharedValues name_shared_values(const Expr& value, SourceLocation where, double largest_tree = 128);

}  // namespace loopgrad::ir
