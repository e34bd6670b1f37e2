// Values of the embedded language: what `x(i) * 2 + exp(s)` is made of. Nothing here computes; it records.
#pragma once

#include <loopgrad/types.h>

#include <memory>
#include <type_traits>
#include <vector>

namespace loopgrad {

namespace ir {
struct ExprNode;
struct ArrayDecl;
class ProgramRecorder;
}  // namespace ir

class Element;

/// A recorded expression: a constant, a size, a loop iterator, an array element or an operation on those.
///
/// C++ literals are *weak*: in `x(i) * 0.5` the literal takes the type of `x(i)`. Otherwise operands are promoted as
/// bool < i32 < i64 < f32 < f64. Integer `/` and `%` round towards minus infinity.
class Value {
 public:
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Value(T constant) : Value(from_constant(constant)) {}
  Value(const Element& element);  // reads the element
  Value(std::shared_ptr<const ir::ExprNode> node, bool weak = false) : node_(std::move(node)), weak_(weak) {}

  ScalarType type() const;
  const std::shared_ptr<const ir::ExprNode>& node() const { return node_; }
  bool weak() const { return weak_; }
  /// A Value decides nothing at recording time: use `p.when(condition, ...)` or `select`.
  explicit operator bool() const = delete;

 private:
  template <class T>
  static Value from_constant(T constant) {
    if constexpr (std::is_same_v<T, bool>) return of_bool(constant);
    else if constexpr (std::is_floating_point_v<T>) return of_float(static_cast<double>(constant));
    else return of_int(static_cast<std::int64_t>(constant));
  }
  static Value of_bool(bool constant);
  static Value of_int(std::int64_t constant);
  static Value of_float(double constant);

  std::shared_ptr<const ir::ExprNode> node_;
  bool weak_ = false;
};

/// An operand together with the source line it was written on; made implicitly.
struct Operand {
  Value value;
  SourceLocation location;
  template <class T, class = std::enable_if_t<std::is_convertible_v<const T&, Value>>>
  Operand(const T& v, std::source_location where = std::source_location::current()) : value(v), location(where) {}
};

/// One element of an array. Reads when used as a Value, writes when assigned to.
class Element {
 public:
  Element(const Element&) = default;
  void operator=(const Operand& value) const;
  void operator=(const Element& value) const { *this = Operand(Value(value), where()); }
  void operator+=(const Operand& value) const;
  void operator-=(const Operand& value) const;
  void operator*=(const Operand& value) const;
  /// element = element / value.
  void operator/=(const Operand& value) const;
  /// `min=` and `max=` of the printed language.
  void min_with(const Operand& value) const;
  void max_with(const Operand& value) const;

 private:
  friend class ArrayHandle;
  friend class Value;
  Element(std::shared_ptr<const ir::ArrayDecl> array, std::vector<Value> indices, SourceLocation location,
          std::weak_ptr<ir::ProgramRecorder> recorder)
      : array_(std::move(array)), indices_(std::move(indices)), location_(location), recorder_(std::move(recorder)) {}
  std::source_location where() const { return {}; }

  std::shared_ptr<const ir::ArrayDecl> array_;
  std::vector<Value> indices_;
  SourceLocation location_;
  std::weak_ptr<ir::ProgramRecorder> recorder_;
};

Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator%(const Value& a, const Value& b);
Value operator-(const Value& a);
Value operator<(const Value& a, const Value& b);
Value operator<=(const Value& a, const Value& b);
Value operator>(const Value& a, const Value& b);
Value operator>=(const Value& a, const Value& b);
Value operator==(const Value& a, const Value& b);
Value operator!=(const Value& a, const Value& b);
Value operator&&(const Value& a, const Value& b);
Value operator||(const Value& a, const Value& b);
Value operator!(const Value& a);

/// min(a, b) is `b < a ? b : a`, max(a, b) is `a < b ? b : a`; on a tie the gradient goes to `a`.
Value min(const Value& a, const Value& b);
Value max(const Value& a, const Value& b);
Value pow(const Value& base, const Value& exponent);
Value atan2(const Value& y, const Value& x);
Value abs(const Value& a);
Value sqrt(const Value& a);
Value exp(const Value& a);
Value log(const Value& a);
Value log1p(const Value& a);
Value expm1(const Value& a);
Value sin(const Value& a);
Value cos(const Value& a);
Value tan(const Value& a);
Value asin(const Value& a);
Value acos(const Value& a);
Value atan(const Value& a);
Value sinh(const Value& a);
Value cosh(const Value& a);
Value tanh(const Value& a);
/// 1 / (1 + exp(-a)).
Value sigmoid(const Value& a);
Value erf(const Value& a);
Value floor(const Value& a);
Value ceil(const Value& a);
/// `condition ? a : b`; only the chosen side is evaluated.
Value select(const Value& condition, const Value& a, const Value& b);
/// Conversion to another type. **Example:** `cast<std::int64_t>(x(i))` truncates.
Value cast(ScalarType type, const Value& a);
template <class T>
Value cast(const Value& a) {
  return cast(value_type(scalar_type<T>()), a);
}

}  // namespace loopgrad
