// What the operators of the IR compute, as functions of C++ types; see dsl/ir/expr.h for the rules.
#pragma once

#include "backends/runtime/conversions.h"
#include "dsl/ir/expr.h"

#include <loopgrad/error.h>

#include <cmath>
#include <type_traits>

namespace loopgrad::backend::interpreter {

// Integers wrap around in two's complement; C++ leaves that undefined for signed types.
template <class T>
T wrapping_add(T a, T b) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
}
template <class T>
T wrapping_sub(T a, T b) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) - static_cast<std::make_unsigned_t<T>>(b));
}
template <class T>
T wrapping_mul(T a, T b) {
  return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) * static_cast<std::make_unsigned_t<T>>(b));
}

/// Rounds towards minus infinity; `b` is not zero. The smallest integer divided by -1 wraps.
template <class T>
T floor_div(T a, T b) {
  if (b == -1) return wrapping_sub(T{0}, a);
  return static_cast<T>(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}
template <class T>
T floor_mod(T a, T b) {
  if (b == -1) return 0;
  return static_cast<T>(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));
}

/// In f64, values are not rounded to narrower types.
template <class Format, class T>
T rounded_to(T a) {
  if constexpr (std::is_same_v<T, float>) return Format::decode(Format::encode(a));
  else return a;
}

/// Returns `use(f)` with the function f that `op` computes on T, a float type.
template <class T, class Use>
auto with_float_unary(ir::UnaryOp op, Use&& use) {
  using enum ir::UnaryOp;
  switch (op) {
    case Neg: return use([](T a) { return -a; });
    case Abs: return use([](T a) { return std::fabs(a); });
    case Sqrt: return use([](T a) { return std::sqrt(a); });
    case Exp: return use([](T a) { return std::exp(a); });
    case Log: return use([](T a) { return std::log(a); });
    case Sin: return use([](T a) { return std::sin(a); });
    case Cos: return use([](T a) { return std::cos(a); });
    case Tan: return use([](T a) { return std::tan(a); });
    case Asin: return use([](T a) { return std::asin(a); });
    case Acos: return use([](T a) { return std::acos(a); });
    case Atan: return use([](T a) { return std::atan(a); });
    case Sinh: return use([](T a) { return std::sinh(a); });
    case Cosh: return use([](T a) { return std::cosh(a); });
    case Tanh: return use([](T a) { return std::tanh(a); });
    case Sigmoid:
      return use([](T a) {
        const T z = std::exp(-std::fabs(a));
        return (a >= 0 ? T{1} : z) / (T{1} + z);
      });
    case Erf: return use([](T a) { return std::erf(a); });
    case Log1p: return use([](T a) { return std::log1p(a); });
    case Expm1: return use([](T a) { return std::expm1(a); });
    case Floor: return use([](T a) { return std::floor(a); });
    case Ceil: return use([](T a) { return std::ceil(a); });
    case RoundF16: return use([](T a) { return rounded_to<F16Format>(a); });
    case RoundBF16: return use([](T a) { return rounded_to<BF16Format>(a); });
    case Stop: return use([](T a) { return a; });
    case Not: break;
  }
  throw InternalError(std::string("'") + name_of(op) + "' of a floating point value");
}

/// As above for operations with two operands of T and a result of T. Integer division is not among them: it can fail.
template <class T, class Use>
auto with_binary(ir::BinaryOp op, Use&& use) {
  using enum ir::BinaryOp;
  if (op == Min) return use([](T a, T b) { return b < a ? b : a; });
  if (op == Max) return use([](T a, T b) { return a < b ? b : a; });
  if constexpr (std::is_floating_point_v<T>) {
    switch (op) {
      case Add: return use([](T a, T b) { return a + b; });
      case Sub: return use([](T a, T b) { return a - b; });
      case Mul: return use([](T a, T b) { return a * b; });
      case Div: return use([](T a, T b) { return a / b; });
      case Pow: return use([](T a, T b) { return std::pow(a, b); });
      case Atan2: return use([](T a, T b) { return std::atan2(a, b); });
      default: break;
    }
  } else if constexpr (!std::is_same_v<T, bool>) {
    switch (op) {
      case Add: return use([](T a, T b) { return wrapping_add(a, b); });
      case Sub: return use([](T a, T b) { return wrapping_sub(a, b); });
      case Mul: return use([](T a, T b) { return wrapping_mul(a, b); });
      default: break;
    }
  }
  throw InternalError(std::string("'") + name_of(op) + "' of values of type " + name_of(scalar_type<T>()));
}

/// As above for the comparisons of two T.
template <class T, class Use>
auto with_comparison(ir::BinaryOp op, Use&& use) {
  using enum ir::BinaryOp;
  switch (op) {
    case Lt: return use([](T a, T b) { return a < b; });
    case Le: return use([](T a, T b) { return a <= b; });
    case Gt: return use([](T a, T b) { return a > b; });
    case Ge: return use([](T a, T b) { return a >= b; });
    case Eq: return use([](T a, T b) { return a == b; });
    case Ne: return use([](T a, T b) { return a != b; });
    default: throw InternalError(std::string("'") + name_of(op) + "' is no comparison");
  }
}

/// Operations that a WorkCount counts when their operands are floating point.
inline bool is_flop(ir::UnaryOp op) {
  using enum ir::UnaryOp;
  return op != Neg && op != Abs && op != Not && op != RoundF16 && op != RoundBF16 && op != Stop;
}

/// Calls `use.template operator()<T>()` with the C++ type of values of `type`.
template <class Use>
auto with_value_type(ScalarType type, Use&& use) {
  switch (type) {
    case ScalarType::Bool: return use.template operator()<bool>();
    case ScalarType::I32: return use.template operator()<std::int32_t>();
    case ScalarType::I64: return use.template operator()<std::int64_t>();
    case ScalarType::F16:
    case ScalarType::BF16:
    case ScalarType::F32: return use.template operator()<float>();
    case ScalarType::F64: return use.template operator()<double>();
  }
  throw InternalError("a value of an unknown type");
}

}  // namespace loopgrad::backend::interpreter
