/// @file
/// Values of the embedded language: what `x(i) * 2 + exp(s)` is made of. Nothing here computes; it records.
#pragma once

#include <loopgrad/types.h>

#include <memory>
#include <type_traits>
#include <vector>

namespace loopgrad {
/// @addtogroup values
/// @{

namespace ir {
struct ExprNode;
struct ElementName;
enum class ReduceOp : std::uint8_t;
}  // namespace ir

class Element;

/// A recorded expression: a constant, a size, a loop iterator, an array element or an operation on those.
///
/// C++ literals are *weak*: in `x(i) * 0.5` the literal takes the type of `x(i)`. Otherwise operands are promoted as
/// bool < i32 < i64 < f32 < f64; a floating literal next to an integer gives f32, and so does a math function of an
/// integer. Integer `/` and `%` round towards minus infinity.
///
/// A Value is never a C++ bool, because it decides nothing at recording time: use `p.when(condition, ...)` or `select`.
/// A Value made from an element is evaluated where it is *used*: `Value old = x(i); x(i) = 0; y(i) = old;` is refused,
/// because the program would read the new `x(i)`. Keep the old one in a `p.scalar<T>()`.
///
/// An unsigned literal of 2^63 or more, which no type holds, is a UsageError.
///
/// A Value that was moved from holds nothing, and neither does `Value v;` before something is assigned to it: using it
/// is a UsageError.
class Value {
 public:
  // What every operation of a user's program needs is defined out of line: such programs compile in half the time.
  /// Holds nothing.
  Value();
  /// The same value.
  /// @{
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  /// @}
  ~Value();
  /// A literal: weak, unless it is a bool. `where` is named when no type holds it.
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Value(T constant, SourceLocation where = std::source_location::current()) : Value(from_constant(constant, where)) {}
  /// Reads the element, on the line where the conversion is written.
  Value(const Element& element, SourceLocation where = std::source_location::current());
  /// A node of the IR, for code that makes programs from programs.
  explicit Value(std::shared_ptr<const ir::ExprNode> node, bool weak = false);

  /// Of the value, so never f16 or bf16; of a literal i64, f64 or bool. Throws UsageError when this Value holds
  /// nothing.
  ScalarType type() const;
  /// The node of the IR. Never null; throws UsageError when this Value holds nothing.
  const std::shared_ptr<const ir::ExprNode>& node(const SourceLocation& where = {}) const;
  /// True for literals and what is computed from nothing else: the other operand decides the type.
  bool weak() const { return weak_; }

 private:
  template <class T>
  static Value from_constant(T constant, [[maybe_unused]] SourceLocation where) {
    if constexpr (std::is_same_v<T, bool>) return of_bool(constant);
    else if constexpr (std::is_floating_point_v<T>) return of_float(static_cast<double>(constant));
    else if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8) return of_unsigned(constant, where);
    else return of_int(static_cast<std::int64_t>(constant));
  }
  static Value of_bool(bool constant);
  static Value of_int(std::int64_t constant);
  static Value of_unsigned(std::uint64_t constant, SourceLocation where);
  static Value of_float(double constant);

  std::shared_ptr<const ir::ExprNode> node_;
  bool weak_ = false;
};

/// An operand together with the source line it was written on; made implicitly from a Value, an Element or a number.
struct Operand {
  Value value;              ///< holds something
  SourceLocation location;  ///< where it was written
  /// Throws UsageError for a Value that holds nothing. An Element is read here.
  template <class T, class = std::enable_if_t<std::is_convertible_v<const T&, Value>>>
  Operand(const T& v, SourceLocation where = std::source_location::current())
      : Operand(At{where}, value_of(v, where)) {}

 private:
  struct At {
    SourceLocation location;
  };
  Operand(At where, Value v);
  template <class T>
  static Value value_of(const T& v, const SourceLocation& where) {
    if constexpr (std::is_base_of_v<Element, T> || std::is_arithmetic_v<T>) return Value(v, where);
    else return v;
  }
};

/// One element of an array. Reads when used as a Value, writes when assigned to.
/// What is assigned is converted to the array's type, except from a float to an integer or to bool: that needs a
/// `cast`.
///
/// An Element that is kept, as in `auto t = x(i)`, and every copy of it, is a *name* for the element and no copy of its
/// contents: writing `t` writes `x(i)`. So that no program means something else than it would with plain numbers, an
/// element is read through its name only while the name is in use: after `x(i) = 0` the name `t` cannot be read, nor
/// `x(i)` after `t = 0` while `t` lives. A copy that a function takes may be written and is gone when it returns.
class Element {
 public:
  /// One more name for the same element.
  Element(const Element& other);
  /// Passes the name on: the other one holds nothing then, and using it is a UsageError.
  Element(Element&&) noexcept;
  ~Element();
  /// Writes the element when the program runs.
  void operator=(const Operand& value) const;
  /// `x(i) = y(i)`. Only for temporaries, whose line is the statement's own; `s = t` takes the overload above.
  void operator=(const Element& value) &&;
  /// A sum or product: such updates commute, so that their order may be changed and iterations may share the element.
  /// @{
  void operator+=(const Operand& value) const;
  void operator-=(const Operand& value) const;
  void operator*=(const Operand& value) const;
  /// @}
  /// element = element / value.
  void operator/=(const Operand& value) const;
  /// `min=` and `max=` of the printed language, which commute as well. Of equal values the last one gets the gradient.
  /// @{
  void min_with(const Operand& value) const;
  void max_with(const Operand& value) const;
  /// @}

 private:
  friend class ArrayHandle;
  friend class Value;
  explicit Element(std::shared_ptr<ir::ElementName> name);
  void reduce(ir::ReduceOp op, const Operand& value) const;

  std::shared_ptr<ir::ElementName> name_;  // null when moved from
};

/// Arithmetic of operands that are promoted as Value says; bools count as 0 and 1. Integers wrap around, and a division
/// or remainder by zero is 0 (checked execution reports it). `%` of floating operands is a UsageError.
/// @{
Value operator+(const Operand& a, const Operand& b);
Value operator-(const Operand& a, const Operand& b);
Value operator*(const Operand& a, const Operand& b);
Value operator/(const Operand& a, const Operand& b);
Value operator%(const Operand& a, const Operand& b);
Value operator-(const Operand& a);
/// @}
/// A bool. Operands are promoted as in arithmetic.
/// @{
Value operator<(const Operand& a, const Operand& b);
Value operator<=(const Operand& a, const Operand& b);
Value operator>(const Operand& a, const Operand& b);
Value operator>=(const Operand& a, const Operand& b);
Value operator==(const Operand& a, const Operand& b);
Value operator!=(const Operand& a, const Operand& b);
/// @}
/// Of bools only, everything else is a UsageError; the right operand is evaluated only when needed.
/// @{
Value operator&&(const Operand& a, const Operand& b);
Value operator||(const Operand& a, const Operand& b);
Value operator!(const Operand& a);
/// @}

/// min(a, b) is `b < a ? b : a`, max(a, b) is `a < b ? b : a`; on a tie the gradient goes to `b`, the last, as it does
/// in min_with() and max_with(). So max(x, 0) has the derivative 0 at 0.
/// @{
Value min(const Operand& a, const Operand& b);
Value max(const Operand& a, const Operand& b);
/// @}
/// That of C. Where the exponent is 0 the gradient by the base is 0 for every base, and where the base is not above 0
/// that by the exponent is 0. Here and in the functions below, integers count as f32 unless it says otherwise.
Value pow(const Operand& base, const Operand& exponent);
/// The angle of (x, y) in radians, from -pi to pi.
Value atan2(const Operand& y, const Operand& x);
/// a*b + c with one rounding. (`s += a*b` has one, too; everything else rounds each operation.)
Value fma(const Operand& a, const Operand& b, const Operand& c);
/// The value of `a`, whose gradient is not followed: to all derivatives it is a constant. Of floating point.
Value stop_gradient(const Operand& a);
/// Of the type of `a`, also an integer. The derivative at 0 is 0.
Value abs(const Operand& a);
/// The function of that name in C. Angles are in radians.
/// @{
Value sqrt(const Operand& a);
Value exp(const Operand& a);
Value log(const Operand& a);
Value log1p(const Operand& a);
Value expm1(const Operand& a);
Value sin(const Operand& a);
Value cos(const Operand& a);
Value tan(const Operand& a);
Value asin(const Operand& a);
Value acos(const Operand& a);
Value atan(const Operand& a);
Value sinh(const Operand& a);
Value cosh(const Operand& a);
Value tanh(const Operand& a);
/// @}
/// 1 / (1 + exp(-a)).
Value sigmoid(const Operand& a);
/// The error function.
Value erf(const Operand& a);
/// Rounds down or up and stays of floating point. The gradient is 0.
/// @{
Value floor(const Operand& a);
Value ceil(const Operand& a);
/// @}
/// `condition ? a : b`; only the chosen side is evaluated. Throws UsageError where `condition` is no bool.
Value select(const Operand& condition, const Operand& a, const Operand& b);
/// Conversion to another type. **Example:** `cast<std::int64_t>(x(i))` truncates. A float that does not fit gives the
/// nearest integer, NaN gives 0; checked execution reports both. To f16 and bf16 the value is rounded, and goes on as
/// f32.
/// @{
Value cast(ScalarType type, const Operand& a);
template <ElementType T>
Value cast(const Operand& a) {
  return cast(scalar_type<T>(), a);
}
/// @}

/// @}
}  // namespace loopgrad
