#include "dsl/ir/expr.h"

#include <loopgrad/error.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>

namespace loopgrad::ir {
namespace {

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

/// Folds an operation on two i64 constants; nullopt where the result overflows or is undefined.
std::optional<std::int64_t> fold_int(BinaryOp op, std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min();
  switch (op) {
    case BinaryOp::Add: return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case BinaryOp::Sub: return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case BinaryOp::Mul: return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
    case BinaryOp::FloorDiv: return b == 0 || a == lowest ? std::nullopt : std::optional(floor_div(a, b));
    case BinaryOp::Mod: return b == 0 || a == lowest ? std::nullopt : std::optional(a - b * floor_div(a, b));
    case BinaryOp::Min: return b < a ? b : a;
    case BinaryOp::Max: return a < b ? b : a;
    case BinaryOp::Lt: return a < b;
    case BinaryOp::Le: return a <= b;
    case BinaryOp::Gt: return a > b;
    case BinaryOp::Ge: return a >= b;
    case BinaryOp::Eq: return a == b;
    case BinaryOp::Ne: return a != b;
    case BinaryOp::And: return a && b;
    case BinaryOp::Or: return a || b;
    default: return std::nullopt;
  }
}

// Letting go of a node takes no stack, however deep what hangs below it is: operands that nobody else holds wait here
// one by one, and only the first call works the list off.
void bury(Expr&& operand) {
  static thread_local std::vector<Expr>* waiting = nullptr;
  if (!operand || operand.ptr().use_count() > 1) return;
  if (waiting) return waiting->push_back(std::move(operand));
  std::vector<Expr> list;
  waiting = &list;
  list.push_back(std::move(operand));
  while (!list.empty()) {
    const Expr next = std::move(list.back());
    list.pop_back();
  }
  waiting = nullptr;
}

template <class T>
struct NodeAllocator : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = NodeAllocator<U>;
  };
  NodeAllocator() = default;
  template <class U>
  NodeAllocator(const NodeAllocator<U>&) {}

  template <class Node>
  void destroy(Node* node) {
    if constexpr (std::is_base_of_v<ExprNode, Node>) {
      const auto drop = [](auto& field) {
        if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Expr>) bury(std::move(field));
        if constexpr (std::is_same_v<std::decay_t<decltype(field)>, std::vector<Expr>>)
          for (Expr& e : field) bury(std::move(e));
      };
      std::apply([&](auto... member) { (drop(node->*member), ...); }, Node::fields());
    }
    node->~Node();
  }
};

template <class Node, class... Fields>
Expr make_node(Fields&&... fields) {
  return {std::allocate_shared<Node>(NodeAllocator<Node>(), std::forward<Fields>(fields)...)};
}

ScalarType result_type(BinaryOp op, ScalarType operand) {
  if (is_comparison(op) || op == BinaryOp::And || op == BinaryOp::Or) return ScalarType::Bool;
  return operand;
}

/// `x + c` with c folded into an existing constant: (x + 1) - 1 is x. Integers only.
std::optional<Expr> fold_offset(BinaryOp op, const Expr& a, std::int64_t c) {
  const auto* inner = a.as<Binary>();
  if (!inner || (inner->op != BinaryOp::Add && inner->op != BinaryOp::Sub)) return std::nullopt;
  const auto offset = as_int(inner->b);
  if (!offset) return std::nullopt;
  std::int64_t delta = c, total = *offset;
  if (op == BinaryOp::Sub && __builtin_sub_overflow(0, c, &delta)) return std::nullopt;
  if (inner->op == BinaryOp::Sub && __builtin_sub_overflow(0, *offset, &total)) return std::nullopt;
  if (__builtin_add_overflow(total, delta, &total)) return std::nullopt;
  if (total == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
  if (total >= 0) return inner->a + int_const(total, a.type());
  return inner->a - int_const(-total, a.type());
}

/// A constant below zero whose negation is of its type as well, with room to spare in 64 bits.
bool is_negatable(const Expr& e) {
  const auto c = as_int(e);
  return c && *c < 0 && *c > (e.type() == ScalarType::I32 ? std::numeric_limits<std::int32_t>::min() : -(1LL << 40));
}

std::optional<Expr> simplify_int(BinaryOp op, const Expr& a, const Expr& b) {
  const auto ca = as_int(a), cb = as_int(b);
  if (ca && cb && (a.type() == ScalarType::I64 || is_comparison(op) || a.type() == ScalarType::Bool)) {
    if (const auto folded = fold_int(op, *ca, *cb)) return int_const(*folded, result_type(op, a.type()));
  }
  switch (op) {
    case BinaryOp::Add:
      if (ca == 0) return b;
      if (cb == 0) return a;
      if (is_negatable(b)) return a - int_const(-*cb, b.type());
      if (cb && a.type() == ScalarType::I64) return fold_offset(op, a, *cb);
      if (ca && a.type() == ScalarType::I64) return b + a;  // constants to the right
      return std::nullopt;
    case BinaryOp::Sub:
      if (cb == 0) return a;
      if (is_negatable(b)) return a + int_const(-*cb, b.type());
      if (cb && a.type() == ScalarType::I64) return fold_offset(op, a, *cb);
      if (a.same_as(b)) return int_const(0, a.type());
      return std::nullopt;
    case BinaryOp::Mul:
      if (ca == 1) return b;
      if (cb == 1) return a;
      if (ca == 0) return a;
      if (cb == 0) return b;
      return std::nullopt;
    case BinaryOp::FloorDiv: return cb == 1 ? std::optional(a) : std::nullopt;
    case BinaryOp::Mod: return cb == 1 ? std::optional(int_const(0, a.type())) : std::nullopt;
    case BinaryOp::And:
      if (ca) return *ca ? b : a;
      if (cb == 1) return a;
      return std::nullopt;
    case BinaryOp::Or:
      if (ca) return *ca ? a : b;
      if (cb == 0) return a;
      return std::nullopt;
    default: return std::nullopt;
  }
}

/// Only rewrites that keep every bit: x*1, 1*x, x/1, x*-1, and a double negation.
std::optional<Expr> simplify_float(BinaryOp op, const Expr& a, const Expr& b) {
  if (op == BinaryOp::Mul) {
    if (is_const(a, 1)) return b;
    if (is_const(b, 1)) return a;
    if (is_const(a, -1)) return -b;
    if (is_const(b, -1)) return -a;
  }
  if (op == BinaryOp::Div && is_const(b, 1)) return a;
  // The first powers are defined so: libraries may differ in the last bit.
  if (op == BinaryOp::Pow && is_const(b, 1)) return a;
  if (op == BinaryOp::Pow && is_const(b, 2)) return a * a;
  return std::nullopt;
}

/// Whether elements of type f16 or bf16 hold the constant as it is: that many leading bits, a normal number.
bool holds_exactly(ScalarType storage, double value) {
  const bool half = storage == ScalarType::F16;
  if (value == 0 || std::isinf(value)) return true;
  int exponent = 0;
  const double bits = std::ldexp(std::frexp(value, &exponent), half ? 11 : 8);
  return bits == std::trunc(bits) && exponent > (half ? -14 : -126) && exponent <= (half ? 16 : 128);
}

[[noreturn]] void bad_types(const char* what, const Expr& a, const Expr& b) {
  throw InternalError(std::string("operands of '") + what + "' have types " + name_of(a.type()) + " and " +
                      name_of(b.type()));
}

}  // namespace

std::int64_t next_id() {
  static std::atomic<std::int64_t> counter{0};
  return ++counter;
}

Symbol make_symbol(std::string name) { return {next_id(), std::move(name)}; }

Array make_array(std::string name, ScalarType type, std::vector<Expr> shape, ArrayRole role, SourceLocation location,
                 std::vector<Expr> given) {
  return std::make_shared<const ArrayDecl>(
      ArrayDecl{next_id(), std::move(name), type, std::move(shape), role, location, std::move(given), {}});
}

Array make_array_in_place_of(const Array& old, std::vector<Expr> shape) {
  return std::make_shared<const ArrayDecl>(
      ArrayDecl{next_id(), old->name, old->type, std::move(shape), old->role, old->location, old->given, old->on_tape});
}

Array make_array_like(const Array& like, std::string name, ScalarType type, ArrayRole role) {
  return make_array(std::move(name), type, like->shape, role, like->location, like->given);
}

Load::Load(Array array_in, std::vector<Expr> indices_in, SourceLocation location_in)
    : ExprOf(value_type(array_in->type)),
      array(std::move(array_in)),
      indices(std::move(indices_in)),
      location(location_in) {}

const char* name_of(UnaryOp op) {
  static const char* const names[] = {"neg", "not",   "abs",   "sqrt",  "exp",  "log",  "sin",  "cos",
                                      "tan", "asin",  "acos",  "atan",  "sinh", "cosh", "tanh", "sigmoid",
                                      "erf", "log1p", "expm1", "floor", "ceil", "f16",  "bf16", "stop_gradient"};
  return names[static_cast<int>(op)];
}

const char* name_of(BinaryOp op) {
  static const char* const names[] = {"add",   "sub", "mul", "div", "floordiv", "mod", "min", "max", "pow",
                                      "atan2", "lt",  "le",  "gt",  "ge",       "eq",  "ne",  "and", "or"};
  return names[static_cast<int>(op)];
}

bool is_comparison(BinaryOp op) { return op >= BinaryOp::Lt && op <= BinaryOp::Ne; }

std::optional<std::int64_t> as_int(const Expr& e) {
  if (const auto* c = e.as<IntConst>()) return c->value;
  return std::nullopt;
}

bool is_const(const Expr& e, double value) {
  if (const auto* c = e.as<IntConst>()) return static_cast<double>(c->value) == value;
  if (const auto* c = e.as<FloatConst>()) return c->value == value;
  return false;
}

Expr int_const(std::int64_t value, ScalarType type) {
  if (type == ScalarType::I32) value = static_cast<std::int32_t>(value);  // wraps: every constant is one of its type
  return make_node<IntConst>(type, value);
}
Expr bool_const(bool value) { return int_const(value, ScalarType::Bool); }
Expr float_const(double value, ScalarType type) {
  if (type == ScalarType::F32) value = static_cast<float>(value);
  return make_node<FloatConst>(type, value);
}
Expr const_of(double value, ScalarType type) {
  return is_float(type) ? float_const(value, value_type(type)) : int_const(static_cast<std::int64_t>(value), type);
}
Expr var(const Symbol& symbol) { return make_node<Var>(symbol); }

Expr load(const Array& array, std::vector<Expr> indices, SourceLocation location) {
  if (indices.size() != array->shape.size()) throw InternalError("rank of load from '" + array->name + "'");
  return make_node<Load>(array, std::move(indices), location);
}

Expr unary(UnaryOp op, const Expr& a) {
  if ((op == UnaryOp::Not) != (a.type() == ScalarType::Bool)) bad_types(name_of(op), a, a);
  if (const auto c = as_int(a)) {
    if (op == UnaryOp::Not) return bool_const(!*c);
    if (op == UnaryOp::Neg && *c != std::numeric_limits<std::int64_t>::min()) return int_const(-*c, a.type());
  }
  if (op == UnaryOp::Neg) {
    if (const auto* c = a.as<FloatConst>()) return float_const(-c->value, c->type);
    if (const auto* inner = a.as<Unary>(); inner && inner->op == UnaryOp::Neg) return inner->a;
  }
  return make_node<Unary>(a.type(), op, a);
}

Expr both(const Expr& a, const Expr& b) { return !a ? b : !b ? a : binary(BinaryOp::And, a, b); }

Expr binary(BinaryOp op, const Expr& a, const Expr& b) {
  if (a.type() != b.type()) bad_types(name_of(op), a, b);
  const auto simpler = is_float(a.type()) ? simplify_float(op, a, b) : simplify_int(op, a, b);
  if (simpler) return *simpler;
  return make_node<Binary>(result_type(op, a.type()), op, a, b);
}

Expr fma(const Expr& a, const Expr& b, const Expr& c) {
  if (!is_float(a.type()) || a.type() != b.type() || a.type() != c.type()) bad_types("fma", a, c);
  if (is_const(a, 1)) return b + c;  // the product is exact
  if (is_const(b, 1)) return a + c;
  return make_node<Fma>(a.type(), a, b, c);
}

Expr rounded_to(ScalarType storage, const Expr& a) {
  if (storage != ScalarType::F16 && storage != ScalarType::BF16) return a;
  const UnaryOp op = storage == ScalarType::F16 ? UnaryOp::RoundF16 : UnaryOp::RoundBF16;
  const auto* load = a.as<Load>();
  const auto* rounded = a.as<Unary>();
  const auto* constant = a.as<FloatConst>();
  if (constant && holds_exactly(storage, constant->value)) return a;
  if ((load && load->array->type == storage) || (rounded && rounded->op == op)) return a;
  return unary(op, a);
}

Expr select(const Expr& condition, const Expr& a, const Expr& b) {
  if (condition.type() != ScalarType::Bool || a.type() != b.type()) bad_types("select", a, b);
  if (const auto c = as_int(condition)) return *c ? a : b;
  return make_node<Select>(condition, a, b);
}

Expr cast(ScalarType type, const Expr& a) {
  if (type == a.type()) return a;
  if (const auto c = as_int(a)) {
    if (is_float(type)) return float_const(static_cast<double>(*c), type);
    if (type == ScalarType::Bool) return bool_const(*c != 0);
    if (type == ScalarType::I64 || *c == static_cast<std::int32_t>(*c)) return int_const(*c, type);
  }
  // A cast that rounds stays: in f64 on request, values are not rounded.
  if (const auto* c = a.as<FloatConst>(); c && is_float(type)) {
    if (type == ScalarType::F64 || static_cast<double>(static_cast<float>(c->value)) == c->value)
      return float_const(c->value, type);
  }
  return make_node<Cast>(type, a);
}

}  // namespace loopgrad::ir
