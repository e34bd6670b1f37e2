// Expressions. Semantics that every pass and backend keeps:
//   - Integers are i32 or i64 in two's complement; index arithmetic is i64. `FloorDiv` and `Mod` round towards minus
//     infinity (as in isl and Python), so `Mod` by a positive number is never negative.
//   - Floating point is IEEE f32 or f64, evaluated as written: nothing is reassociated or contracted, and a value that
//     is computed again by an equal expression from equal values has equal bits. One rounding for a product and a sum
//     is an `Fma`, or a Reduce that says so. Loads of f16 and bf16 give f32; what is stored to them is rounded by an
//     operation of its own first (RoundF16, RoundBF16), so that the value is the same wherever it is used.
//   - `Select`, `And` and `Or` evaluate only the operands they need: a load in a branch not taken does not happen.
//   - `Min`, `Max` return the first operand when the two are equal or unordered: min(a,b) = b < a ? b : a.
#pragma once

#include "dsl/ir/node.h"

#include <optional>
#include <tuple>

namespace loopgrad::ir {

struct ExprNode {
  const Kind kind;
  ScalarType type;

 protected:
  ExprNode(Kind kind, ScalarType type) : kind(kind), type(type) {}
};

template <Kind K>
struct ExprOf : ExprNode {
  static constexpr Kind static_kind = K;
  explicit ExprOf(ScalarType type) : ExprNode(K, type) {}
};

enum class UnaryOp : std::uint8_t {
  Neg,
  Not,
  Abs,
  Sqrt,
  Exp,
  Log,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Sigmoid,
  Erf,
  Log1p,
  Expm1,
  Floor,
  Ceil,
  RoundF16,  // an f32 rounded to the nearest value of f16 or bf16, ties to even; still an f32
  RoundBF16,
  Stop,  // the value itself, which to derivatives is a constant; passes do not meet it (see without_stops)
};

enum class BinaryOp : std::uint8_t {
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  Mod,
  Min,
  Max,
  Pow,
  Atan2,
  Lt,
  Le,
  Gt,
  Ge,
  Eq,
  Ne,
  And,
  Or,
};

const char* name_of(UnaryOp op);   // "exp", "neg", ...
const char* name_of(BinaryOp op);  // "add", "floordiv", ...

struct IntConst : ExprOf<Kind::IntConst> {  // of type bool, i32 or i64
  std::int64_t value;
  IntConst(ScalarType type, std::int64_t value) : ExprOf(type), value(value) {}
  static constexpr auto fields() { return std::tuple{&IntConst::value}; }
};

struct FloatConst : ExprOf<Kind::FloatConst> {  // of type f32 or f64
  double value;
  FloatConst(ScalarType type, double value) : ExprOf(type), value(value) {}
  static constexpr auto fields() { return std::tuple{&FloatConst::value}; }
};

/// The value of a size or iterator; always i64.
struct Var : ExprOf<Kind::Var> {
  Symbol symbol;
  explicit Var(Symbol symbol) : ExprOf(ScalarType::I64), symbol(std::move(symbol)) {}
  static constexpr auto fields() { return std::tuple{&Var::symbol}; }
};

/// One element of an array, at the moment of evaluation. Type: value_type(array->type).
struct Load : ExprOf<Kind::Load> {
  Array array;
  std::vector<Expr> indices;  // i64, one per dimension
  SourceLocation location;    // not part of equality
  Load(Array array, std::vector<Expr> indices, SourceLocation location);
  static constexpr auto fields() { return std::tuple{&Load::array, &Load::indices}; }
};

struct Unary : ExprOf<Kind::Unary> {
  UnaryOp op;
  Expr a;
  Unary(ScalarType type, UnaryOp op, Expr a) : ExprOf(type), op(op), a(std::move(a)) {}
  static constexpr auto fields() { return std::tuple{&Unary::op, &Unary::a}; }
};

/// Operands have equal types; comparisons and And/Or give bool.
struct Binary : ExprOf<Kind::Binary> {
  BinaryOp op;
  Expr a, b;
  Binary(ScalarType type, BinaryOp op, Expr a, Expr b) : ExprOf(type), op(op), a(std::move(a)), b(std::move(b)) {}
  static constexpr auto fields() { return std::tuple{&Binary::op, &Binary::a, &Binary::b}; }
};

/// a*b + c with one rounding; of type f32 or f64, as are all operands.
struct Fma : ExprOf<Kind::Fma> {
  Expr a, b, c;
  Fma(ScalarType type, Expr a, Expr b, Expr c) : ExprOf(type), a(std::move(a)), b(std::move(b)), c(std::move(c)) {}
  static constexpr auto fields() { return std::tuple{&Fma::a, &Fma::b, &Fma::c}; }
};

struct Select : ExprOf<Kind::Select> {
  Expr condition, a, b;  // condition is bool; a and b have equal types
  Select(Expr condition, Expr a, Expr b)
      : ExprOf(a.type()), condition(std::move(condition)), a(std::move(a)), b(std::move(b)) {}
  static constexpr auto fields() { return std::tuple{&Select::condition, &Select::a, &Select::b}; }
};

/// Conversion as by static_cast: float to integer truncates; anything to bool tests for non-zero.
struct Cast : ExprOf<Kind::Cast> {
  Expr a;
  Cast(ScalarType type, Expr a) : ExprOf(type), a(std::move(a)) {}
  static constexpr auto fields() { return std::tuple{&Cast::a}; }
};

inline Kind Expr::kind() const { return node_->kind; }
inline ScalarType Expr::type() const { return node_->type; }
template <class T>
const T* Expr::as() const {
  return node_ && node_->kind == T::static_kind ? static_cast<const T*>(node_.get()) : nullptr;
}

// Factories. They check types (InternalError: the frontend has already checked the user's), fold constants and drop
// neutral integer operands, so that index expressions stay small. Floating point is folded only where exact.

Expr int_const(std::int64_t value, ScalarType type = ScalarType::I64);
Expr bool_const(bool value);
Expr float_const(double value, ScalarType type);
/// Zero or one of any type.
Expr const_of(double value, ScalarType type);
Expr var(const Symbol& symbol);
Expr load(const Array& array, std::vector<Expr> indices, SourceLocation location = {});
Expr unary(UnaryOp op, const Expr& a);
Expr binary(BinaryOp op, const Expr& a, const Expr& b);  // operands of equal type
Expr both(const Expr& a, const Expr& b);                 // of two conditions; null: one that always holds
Expr fma(const Expr& a, const Expr& b, const Expr& c);
Expr select(const Expr& condition, const Expr& a, const Expr& b);
/// The value as elements of type `storage` hold it: rounded where that is f16 or bf16, else `a` itself.
Expr rounded_to(ScalarType storage, const Expr& a);
Expr cast(ScalarType type, const Expr& a);  // `a` itself when the type already fits

inline Expr operator+(const Expr& a, const Expr& b) { return binary(BinaryOp::Add, a, b); }
inline Expr operator-(const Expr& a, const Expr& b) { return binary(BinaryOp::Sub, a, b); }
inline Expr operator*(const Expr& a, const Expr& b) { return binary(BinaryOp::Mul, a, b); }
inline Expr operator-(const Expr& a) { return unary(UnaryOp::Neg, a); }

/// The value when the expression is an integer or bool constant.
std::optional<std::int64_t> as_int(const Expr& e);
/// True for the floating or integer constant `value`.
bool is_const(const Expr& e, double value);
bool is_comparison(BinaryOp op);

}  // namespace loopgrad::ir
