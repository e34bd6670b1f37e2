// Which operations the library of a target computes, by an algorithm of its own.
#pragma once

#include "dsl/ir/expr.h"

namespace loopgrad::ir {

/// Functions that take as long as many operations and are rounded as the library rounds them; the others are exact, or
/// rounded once.
bool is_library_call(UnaryOp op);
bool is_library_call(BinaryOp op);
bool is_library_call(const Expr& e);

}  // namespace loopgrad::ir
