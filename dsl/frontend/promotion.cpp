#include "dsl/frontend/promotion.h"

#include <algorithm>
#include <limits>

namespace loopgrad::ir {
namespace {

/// Position in the promotion order; values never have a 16-bit type.
int order(ScalarType type) { return static_cast<int>(type); }

/// The type that a literal takes next to an operand of type `other`.
ScalarType literal_type(const Value& literal, ScalarType other) {
  if (is_float(literal.type())) return is_float(other) ? other : ScalarType::F32;
  if (other == ScalarType::Bool) return ScalarType::I64;
  const auto value = as_int(Expr(literal.node()));
  const bool fits =
      value && *value >= std::numeric_limits<std::int32_t>::min() && *value <= std::numeric_limits<std::int32_t>::max();
  return other == ScalarType::I32 && !fits ? ScalarType::I64 : other;
}

}  // namespace

ScalarType promoted_type(const Value& a, const Value& b) {
  if (a.weak() && !b.weak()) return literal_type(a, b.type());
  if (b.weak() && !a.weak()) return literal_type(b, a.type());
  return order(a.type()) < order(b.type()) ? b.type() : a.type();
}

Expr converted(const Value& value, ScalarType type) {
  // A literal is of the type that it is used as, and no double that was rounded.
  const Expr e(value.node());
  if (const auto* literal = e.as<FloatConst>(); literal && is_float(type)) return float_const(literal->value, type);
  return cast(type, e);
}

bool converts_implicitly(const Value& value, ScalarType storage) {
  const ScalarType from = value.type();
  if (storage == ScalarType::Bool) return from == ScalarType::Bool;
  return is_float(storage) || !is_float(from);
}

}  // namespace loopgrad::ir
