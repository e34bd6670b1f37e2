#include <loopgrad/value.h>

#include "dsl/frontend/promotion.h"
#include "dsl/frontend/recorder.h"

#include <loopgrad/error.h>

#include <fmt/format.h>

#include <limits>

namespace loopgrad {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::UnaryOp;

[[noreturn]] void fail(const Operand& where, std::string message, std::string hint) {
  ErrorInfo info;
  info.code = ErrorCode::BadProgram;
  info.message = std::move(message);
  info.hint = std::move(hint);
  info.location = where.location;
  throw UsageError(std::move(info));
}

Value value_of(const Expr& e, bool weak = false) { return Value(e.ptr(), weak); }

/// Two floating literals: computed here, so that the result is a literal again.
std::optional<double> fold(BinaryOp op, const Expr& a, const Expr& b) {
  const auto* x = a.as<ir::FloatConst>();
  const auto* y = b.as<ir::FloatConst>();
  if (!x || !y) return std::nullopt;
  switch (op) {
    case BinaryOp::Add: return x->value + y->value;
    case BinaryOp::Sub: return x->value - y->value;
    case BinaryOp::Mul: return x->value * y->value;
    case BinaryOp::Div: return x->value / y->value;
    default: return std::nullopt;
  }
}

/// Booleans take part in arithmetic and comparisons as 0 and 1.
ScalarType arithmetic_type(const Operand& a, const Operand& b) {
  const ScalarType type = ir::promoted_type(a.value, b.value);
  return type == ScalarType::Bool ? ScalarType::I32 : type;
}

Value arithmetic(BinaryOp op, const Operand& a, const Operand& b) {
  const ScalarType type = arithmetic_type(a, b);
  const bool weak = a.value.weak() && b.value.weak();
  const Expr x = ir::converted(a.value, type), y = ir::converted(b.value, type);
  if (weak) {
    if (const auto folded = fold(op, x, y)) return value_of(ir::float_const(*folded, type), true);
  }
  return value_of(ir::binary(op, x, y), weak);
}

Value comparison(BinaryOp op, const Operand& a, const Operand& b) {
  const ScalarType type = arithmetic_type(a, b);
  return value_of(ir::binary(op, ir::converted(a.value, type), ir::converted(b.value, type)));
}

Value logical(BinaryOp op, const char* spelled, const Operand& a, const Operand& b) {
  for (const Operand* operand : {&a, &b}) {
    if (operand->value.type() == ScalarType::Bool) continue;
    fail(*operand, fmt::format("'{}' needs bool operands, this one is {}", spelled, name_of(operand->value.type())),
         "compare it, for example with `!= 0`");
  }
  return value_of(ir::binary(op, Expr(a.value.node()), Expr(b.value.node())));
}

/// Integers become f32 (literals stay weak), as for a floating literal next to an integer.
Value as_floating(const Value& a) {
  if (is_float(a.type())) return a;
  return value_of(ir::converted(a, a.weak() ? ScalarType::F64 : ScalarType::F32), a.weak());
}

Value math(UnaryOp op, const Operand& a) {
  const Value x = as_floating(a.value);
  return value_of(ir::unary(op, Expr(x.node())), x.weak());
}

/// An integer next to a floating operand takes its type at once: an f32 between the two would round it.
Value math(BinaryOp op, const Operand& a, const Operand& b) {
  const bool floating = is_float(ir::promoted_type(a.value, b.value));
  const Value x = floating ? a.value : as_floating(a.value), y = floating ? b.value : as_floating(b.value);
  const ScalarType type = ir::promoted_type(x, y);
  return value_of(ir::binary(op, ir::converted(x, type), ir::converted(y, type)), x.weak() && y.weak());
}

/// Neg and Abs keep integers.
Value numeric(UnaryOp op, const Operand& a) {
  const Expr x = a.value.type() == ScalarType::Bool ? ir::converted(a.value, ScalarType::I32) : Expr(a.value.node());
  return value_of(ir::unary(op, x), a.value.weak());
}

}  // namespace

Value::Value() = default;
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;
Value::Value(std::shared_ptr<const ir::ExprNode> node, bool weak) : node_(std::move(node)), weak_(weak) {}

Value Value::of_bool(bool constant) { return value_of(ir::bool_const(constant)); }
Value Value::of_int(std::int64_t constant) { return value_of(ir::int_const(constant), true); }
Value Value::of_unsigned(std::uint64_t constant, SourceLocation where) {
  if (constant <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return of_int(static_cast<std::int64_t>(constant));
  throw UsageError({.code = ErrorCode::BadType,
                    .message = fmt::format("the literal {} does not fit in 64 bits with a sign", constant),
                    .hint = "write a floating literal, or a number below 2^63",
                    .location = SourceLocation(where)});
}
Value Value::of_float(double constant) { return value_of(ir::float_const(constant, ScalarType::F64), true); }

Value::Value(const Element& element, SourceLocation where) {
  const ir::ElementName& name = ir::name_of(element.name_, where);
  node_ = ir::recorder_of(name.recorder, where)->read(name, where).ptr();
}

const std::shared_ptr<const ir::ExprNode>& Value::node(const SourceLocation& where) const {
  if (!node_) ir::fail_empty("Value", where);
  return node_;
}

ScalarType Value::type() const { return node()->type; }

Operand::Operand(At where, Value v) : value(std::move(v)), location(where.location) {
  value.node(location);  // refuses one that holds nothing, here
}

Element::Element(std::shared_ptr<ir::ElementName> name) : name_(std::move(name)) {}
Element::Element(Element&&) noexcept = default;
Element::~Element() = default;
Element::Element(const Element& other) : name_(other.name_ ? ir::copy_of(*other.name_) : nullptr) {}

void Element::operator=(const Operand& value) const {
  const ir::ElementName& name = ir::name_of(name_, value.location);
  ir::recorder_of(name.recorder, value.location)->assign(name, value.value, value.location);
}
void Element::operator=(const Element& value) && {
  const SourceLocation where = ir::name_of(name_, {}).location;
  const ir::ElementName& source = ir::name_of(value.name_, where);
  const Expr read = ir::recorder_of(source.recorder, where)->read(source, where);
  ir::recorder_of(name_->recorder, where)->assign(*name_, value_of(read), where);
}
void Element::reduce(ir::ReduceOp op, const Operand& value) const {
  const ir::ElementName& name = ir::name_of(name_, value.location);
  ir::recorder_of(name.recorder, value.location)->reduce(name, op, value.value, value.location);
}
void Element::operator+=(const Operand& value) const { reduce(ir::ReduceOp::Add, value); }
void Element::operator-=(const Operand& value) const {
  Operand negated = value;
  negated.value = -value;
  reduce(ir::ReduceOp::Add, negated);
}
void Element::operator*=(const Operand& value) const { reduce(ir::ReduceOp::Mul, value); }
void Element::operator/=(const Operand& value) const {
  const ir::ElementName& name = ir::name_of(name_, value.location);
  const auto recorder = ir::recorder_of(name.recorder, value.location);
  const Value old = value_of(recorder->read(name, value.location));
  recorder->assign(name, old / value, value.location);
}
void Element::min_with(const Operand& value) const { reduce(ir::ReduceOp::Min, value); }
void Element::max_with(const Operand& value) const { reduce(ir::ReduceOp::Max, value); }

Value operator+(const Operand& a, const Operand& b) { return arithmetic(BinaryOp::Add, a, b); }
Value operator-(const Operand& a, const Operand& b) { return arithmetic(BinaryOp::Sub, a, b); }
Value operator*(const Operand& a, const Operand& b) { return arithmetic(BinaryOp::Mul, a, b); }
Value operator/(const Operand& a, const Operand& b) {
  return arithmetic(is_float(arithmetic_type(a, b)) ? BinaryOp::Div : BinaryOp::FloorDiv, a, b);
}
Value operator%(const Operand& a, const Operand& b) {
  if (is_float(arithmetic_type(a, b)))
    fail(a, "'%' needs integer operands", "write a - floor(a / b) * b for floating operands");
  return arithmetic(BinaryOp::Mod, a, b);
}
Value operator-(const Operand& a) { return numeric(UnaryOp::Neg, a); }
Value operator<(const Operand& a, const Operand& b) { return comparison(BinaryOp::Lt, a, b); }
Value operator<=(const Operand& a, const Operand& b) { return comparison(BinaryOp::Le, a, b); }
Value operator>(const Operand& a, const Operand& b) { return comparison(BinaryOp::Gt, a, b); }
Value operator>=(const Operand& a, const Operand& b) { return comparison(BinaryOp::Ge, a, b); }
Value operator==(const Operand& a, const Operand& b) { return comparison(BinaryOp::Eq, a, b); }
Value operator!=(const Operand& a, const Operand& b) { return comparison(BinaryOp::Ne, a, b); }
Value operator&&(const Operand& a, const Operand& b) { return logical(BinaryOp::And, "&&", a, b); }
Value operator||(const Operand& a, const Operand& b) { return logical(BinaryOp::Or, "||", a, b); }
Value operator!(const Operand& a) {
  if (a.value.type() != ScalarType::Bool)
    fail(a, fmt::format("'!' needs a bool operand, this one is {}", name_of(a.value.type())), "compare it with 0");
  return value_of(ir::unary(UnaryOp::Not, Expr(a.value.node())));
}

Value min(const Operand& a, const Operand& b) { return arithmetic(BinaryOp::Min, a, b); }
Value max(const Operand& a, const Operand& b) { return arithmetic(BinaryOp::Max, a, b); }
Value pow(const Operand& base, const Operand& exponent) { return math(BinaryOp::Pow, base, exponent); }
Value atan2(const Operand& y, const Operand& x) { return math(BinaryOp::Atan2, y, x); }
Value stop_gradient(const Operand& a) { return math(UnaryOp::Stop, a); }
Value abs(const Operand& a) { return numeric(UnaryOp::Abs, a); }
Value sqrt(const Operand& a) { return math(UnaryOp::Sqrt, a); }
Value exp(const Operand& a) { return math(UnaryOp::Exp, a); }
Value log(const Operand& a) { return math(UnaryOp::Log, a); }
Value log1p(const Operand& a) { return math(UnaryOp::Log1p, a); }
Value expm1(const Operand& a) { return math(UnaryOp::Expm1, a); }
Value sin(const Operand& a) { return math(UnaryOp::Sin, a); }
Value cos(const Operand& a) { return math(UnaryOp::Cos, a); }
Value tan(const Operand& a) { return math(UnaryOp::Tan, a); }
Value asin(const Operand& a) { return math(UnaryOp::Asin, a); }
Value acos(const Operand& a) { return math(UnaryOp::Acos, a); }
Value atan(const Operand& a) { return math(UnaryOp::Atan, a); }
Value sinh(const Operand& a) { return math(UnaryOp::Sinh, a); }
Value cosh(const Operand& a) { return math(UnaryOp::Cosh, a); }
Value tanh(const Operand& a) { return math(UnaryOp::Tanh, a); }
Value sigmoid(const Operand& a) { return math(UnaryOp::Sigmoid, a); }
Value erf(const Operand& a) { return math(UnaryOp::Erf, a); }
Value floor(const Operand& a) { return math(UnaryOp::Floor, a); }
Value ceil(const Operand& a) { return math(UnaryOp::Ceil, a); }

Value fma(const Operand& a, const Operand& b, const Operand& c) {
  const bool floating = is_float(a.value.type()) || is_float(b.value.type()) || is_float(c.value.type());
  const auto operand = [&](const Operand& o) { return floating ? o.value : as_floating(o.value); };
  const Value x = operand(a), y = operand(b), z = operand(c);
  const ScalarType type = std::max(std::max(ir::promoted_type(x, y), ir::promoted_type(y, z)), ir::promoted_type(x, z));
  return value_of(ir::fma(ir::converted(x, type), ir::converted(y, type), ir::converted(z, type)),
                  x.weak() && y.weak() && z.weak());
}

Value select(const Operand& condition, const Operand& a, const Operand& b) {
  if (condition.value.type() != ScalarType::Bool)
    fail(condition, fmt::format("the condition of select is {}, not bool", name_of(condition.value.type())),
         "compare it, for example with `!= 0`");
  const ScalarType type = ir::promoted_type(a.value, b.value);
  return value_of(ir::select(Expr(condition.value.node()), ir::converted(a.value, type), ir::converted(b.value, type)),
                  a.value.weak() && b.value.weak());
}

Value cast(ScalarType type, const Operand& a) {
  if (!is_known(type)) fail(a, "a cast to no known type", "use a value of ScalarType, or cast<T>(...)");
  return value_of(ir::rounded_to(type, ir::converted(a.value, value_type(type))));
}

}  // namespace loopgrad
