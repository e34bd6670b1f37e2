// What expressions compute, in unchecked mode unless a test says otherwise.
#include "tests/unit/interpreter/programs.h"

#include <bit>
#include <cmath>
#include <limits>

namespace loopgrad::test {
namespace {

constexpr auto nan = std::numeric_limits<double>::quiet_NaN();

/// The value of an expression over the one-element inputs a and b of one type.
template <class T, class R = T>
struct Formula {
  ScalarType type = scalar_type<T>();
  Array array_a = make_array("a", type, {}, ArrayRole::Input, {});
  Array array_b = make_array("b", type, {}, ArrayRole::Input, {});
  Expr a = load(array_a, {}), b = load(array_b, {});

  bool checked = false;

  R operator()(const Expr& e, T value_a, T value_b = T{}) const {
    const Array out = make_array("out", scalar_type<R>(), {}, ArrayRole::Output, {});
    const ir::Program program = make_program({}, {array_a, array_b, out}, assign(out, {}, e, line(7)));
    R result{};
    run(program, {{"a", view(&value_a, {})}, {"b", view(&value_b, {})}, {"out", view(&result, {})}},
        {.checked = checked});
    return result;
  }
  R operator()(BinaryOp op, T value_a, T value_b) const { return (*this)(binary(op, a, b), value_a, value_b); }
  R operator()(UnaryOp op, T value_a) const { return (*this)(unary(op, a), value_a); }
};

TEST(Arithmetic, IsRoundedToF32AtEveryStep) {
  const Formula<float> f32s;
  // In f64 the sum would keep the small part and the difference would give it back.
  EXPECT_EQ(f32s((f32s.a + f32s.b) - f32s.a, 1e8f, 1.0f), 0.0f);
  EXPECT_EQ(f32s(BinaryOp::Div, 1.0f, 3.0f), 1.0f / 3.0f);
  EXPECT_EQ(f32s(UnaryOp::Exp, 1.0f), std::exp(1.0f));
  const Formula<double> f64s;
  EXPECT_EQ(f64s((f64s.a + f64s.b) - f64s.a, 1e8, 1.0), 1.0);
}

TEST(Arithmetic, HasEveryUnaryFunction) {
  const Formula<double> formula;
  const double x = 0.3;
  EXPECT_EQ(formula(UnaryOp::Neg, x), -x);
  EXPECT_EQ(formula(UnaryOp::Abs, -x), x);
  EXPECT_EQ(formula(UnaryOp::Sqrt, x), std::sqrt(x));
  EXPECT_EQ(formula(UnaryOp::Exp, x), std::exp(x));
  EXPECT_EQ(formula(UnaryOp::Log, x), std::log(x));
  EXPECT_EQ(formula(UnaryOp::Sin, x), std::sin(x));
  EXPECT_EQ(formula(UnaryOp::Cos, x), std::cos(x));
  EXPECT_EQ(formula(UnaryOp::Tan, x), std::tan(x));
  EXPECT_EQ(formula(UnaryOp::Asin, x), std::asin(x));
  EXPECT_EQ(formula(UnaryOp::Acos, x), std::acos(x));
  EXPECT_EQ(formula(UnaryOp::Atan, x), std::atan(x));
  EXPECT_EQ(formula(UnaryOp::Sinh, x), std::sinh(x));
  EXPECT_EQ(formula(UnaryOp::Cosh, x), std::cosh(x));
  EXPECT_EQ(formula(UnaryOp::Tanh, x), std::tanh(x));
  EXPECT_EQ(formula(UnaryOp::Sigmoid, x), 1 / (1 + std::exp(-x)));
  EXPECT_EQ(formula(UnaryOp::Erf, x), std::erf(x));
  EXPECT_EQ(formula(UnaryOp::Log1p, x), std::log1p(x));
  EXPECT_EQ(formula(UnaryOp::Expm1, x), std::expm1(x));
  EXPECT_EQ(formula(UnaryOp::Floor, -x), -1.0);
  EXPECT_EQ(formula(UnaryOp::Ceil, x), 1.0);
}

TEST(Arithmetic, HasEveryBinaryFunction) {
  const Formula<double> formula;
  EXPECT_EQ(formula(BinaryOp::Add, 2, 3), 5);
  EXPECT_EQ(formula(BinaryOp::Sub, 2, 3), -1);
  EXPECT_EQ(formula(BinaryOp::Mul, 2, 3), 6);
  EXPECT_EQ(formula(BinaryOp::Div, 3, 2), 1.5);
  EXPECT_EQ(formula(BinaryOp::Pow, 2, 10), 1024);
  EXPECT_EQ(formula(BinaryOp::Atan2, 1, -1), std::atan2(1.0, -1.0));
}

TEST(Arithmetic, MinAndMaxReturnTheFirstOperandOnATie) {
  const Formula<double> formula;
  EXPECT_FALSE(std::signbit(formula(BinaryOp::Min, 0.0, -0.0)));
  EXPECT_TRUE(std::signbit(formula(BinaryOp::Max, -0.0, 0.0)));
  EXPECT_TRUE(std::isnan(formula(BinaryOp::Min, nan, 1)));
  EXPECT_EQ(formula(BinaryOp::Min, 1, nan), 1);
  EXPECT_TRUE(std::isnan(formula(BinaryOp::Max, nan, 1)));
  EXPECT_EQ(formula(BinaryOp::Max, 1, nan), 1);
  EXPECT_EQ(formula(BinaryOp::Min, 4, 3), 3);
  EXPECT_EQ(formula(BinaryOp::Max, 3, 4), 4);
}

TEST(Arithmetic, ComparesFloats) {
  const Formula<float, bool> formula;
  EXPECT_TRUE(formula(BinaryOp::Lt, 1, 2));
  EXPECT_FALSE(formula(BinaryOp::Lt, 2, 2));
  EXPECT_TRUE(formula(BinaryOp::Le, 2, 2));
  EXPECT_TRUE(formula(BinaryOp::Gt, 3, 2));
  EXPECT_TRUE(formula(BinaryOp::Ge, 2, 2));
  EXPECT_TRUE(formula(BinaryOp::Eq, 2, 2));
  EXPECT_TRUE(formula(BinaryOp::Ne, 2, 3));
  EXPECT_FALSE(formula(BinaryOp::Eq, std::nanf(""), std::nanf("")));
}

TEST(Integers, WrapAround) {
  const Formula<std::int32_t> i32s;
  constexpr auto lowest = std::numeric_limits<std::int32_t>::min(), highest = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(i32s(BinaryOp::Add, highest, 1), lowest);
  EXPECT_EQ(i32s(BinaryOp::Sub, lowest, 1), highest);
  EXPECT_EQ(i32s(BinaryOp::Mul, 1 << 30, 6), std::bit_cast<std::int32_t>(std::uint32_t{2} << 30));
  EXPECT_EQ(i32s(UnaryOp::Neg, lowest), lowest);
  EXPECT_EQ(i32s(UnaryOp::Abs, lowest), lowest);
  EXPECT_EQ(i32s(BinaryOp::FloorDiv, lowest, -1), lowest);
  EXPECT_EQ(i32s(BinaryOp::Mod, lowest, -1), 0);
  const Formula<std::int64_t> i64s;
  constexpr auto lowest64 = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(i64s(BinaryOp::Sub, lowest64, 1), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(i64s(BinaryOp::Mul, std::int64_t{1} << 62, 4), 0);
  EXPECT_EQ(i64s(BinaryOp::FloorDiv, lowest64, -1), lowest64);
}

TEST(Integers, DivideTowardsMinusInfinity) {
  const Formula<std::int64_t> formula;
  for (const std::int64_t a : {-7, -6, -1, 0, 1, 6, 7}) {
    for (const std::int64_t b : {-3, -1, 1, 3}) {
      const auto quotient = static_cast<std::int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
      EXPECT_EQ(formula(BinaryOp::FloorDiv, a, b), quotient) << a << " " << b;
      EXPECT_EQ(formula(BinaryOp::Mod, a, b), a - b * quotient) << a << " " << b;
    }
  }
}

TEST(Integers, DivisionByZeroGivesZeroAndIsAnErrorInCheckedMode) {
  Formula<std::int32_t> formula;
  EXPECT_EQ(formula(BinaryOp::FloorDiv, 5, 0), 0);
  EXPECT_EQ(formula(BinaryOp::Mod, 5, 0), 0);
  formula.checked = true;
  for (const BinaryOp op : {BinaryOp::FloorDiv, BinaryOp::Mod}) {
    const ErrorInfo error = error_of<RuntimeError>([&] { formula(op, 5, 0); });
    EXPECT_EQ(error.code, ErrorCode::NotANumber);
    EXPECT_CONTAINS(error.message, "integer division of 5 by zero");
    EXPECT_EQ(error.location.line, 7u);
    EXPECT_EQ(error.program, "p");
  }
}

TEST(Casts, TruncateWrapAndTest) {
  const Formula<double, std::int32_t> to_i32;
  EXPECT_EQ(to_i32(cast(ScalarType::I32, to_i32.a), -2.9), -2);
  EXPECT_EQ(to_i32(cast(ScalarType::I32, to_i32.a), 2147483647.5), 2147483647);
  const Formula<std::int64_t, std::int32_t> narrow;
  EXPECT_EQ(narrow(cast(ScalarType::I32, narrow.a), (std::int64_t{1} << 32) + 5), 5);
  const Formula<std::int32_t, std::int64_t> widen;
  EXPECT_EQ(widen(cast(ScalarType::I64, widen.a), -5), -5);
  const Formula<double, float> to_f32;
  EXPECT_EQ(to_f32(cast(ScalarType::F32, to_f32.a), 0.1), 0.1f);
  const Formula<std::int32_t, float> from_int;
  EXPECT_EQ(from_int(cast(ScalarType::F32, from_int.a), 16777217), 16777216.0f);
  const Formula<float, bool> to_bool;
  EXPECT_TRUE(to_bool(cast(ScalarType::Bool, to_bool.a), 0.5f));
  EXPECT_FALSE(to_bool(cast(ScalarType::Bool, to_bool.a), -0.0f));
  const Formula<bool, std::int32_t> from_bool;
  EXPECT_EQ(from_bool(cast(ScalarType::I32, from_bool.a), true), 1);
}

TEST(Casts, OutOfRangeGiveTheNearestIntegerAndAreAnErrorInCheckedMode) {
  Formula<double, std::int32_t> to_i32;
  const Expr as_i32 = cast(ScalarType::I32, to_i32.a);
  EXPECT_EQ(to_i32(as_i32, 2147483648.0), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(to_i32(as_i32, -1e300), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(to_i32(as_i32, nan), 0);
  to_i32.checked = true;
  for (const double value : {2147483648.0, -2147483649.0, nan, 1e300}) {
    const ErrorInfo error = error_of<RuntimeError>([&] { to_i32(cast(ScalarType::I32, to_i32.a), value); });
    EXPECT_EQ(error.code, ErrorCode::NotANumber);
    EXPECT_CONTAINS(error.message, "cannot be converted to i32");
  }
  Formula<float, std::int64_t> to_i64;
  EXPECT_EQ(to_i64(cast(ScalarType::I64, to_i64.a), 9.3e18f), std::numeric_limits<std::int64_t>::max());
  to_i64.checked = true;
  EXPECT_THROW(to_i64(cast(ScalarType::I64, to_i64.a), 9.3e18f), RuntimeError);
}

}  // namespace
}  // namespace loopgrad::test
