// How operands of different types meet: the type rules of the language, in one place.
#pragma once

#include "dsl/ir/expr.h"

#include <loopgrad/value.h>

namespace loopgrad::ir {

/// The common type of two operands: bool < i32 < i64 < f32 < f64, except that a weak literal takes the other operand's
/// type. A weak float next to an integer gives f32; a weak integer next to a bool, or too large for i32, gives i64.
ScalarType promoted_type(const Value& a, const Value& b);

/// The operand in another type. A literal is converted here, not in the program.
Expr converted(const Value& value, ScalarType type);

/// True when a value may be stored into an array of type `storage` without an explicit cast: everything but a float
/// into an integer or bool, and an integer into a bool.
bool converts_implicitly(const Value& value, ScalarType storage);

}  // namespace loopgrad::ir
