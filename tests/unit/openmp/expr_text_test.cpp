// Expressions as C++: precedence, literals, types and the choice between C++ operators and helpers.
#include "backends/c_text/expr_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace loopgrad::backend {
namespace {

using namespace ir;

struct ExprText : testing::Test {
  Symbol n = make_symbol("n"), i = make_symbol("i");
  Array x = make_array("x", ScalarType::F32, {var(n), var(n) + int_const(1)}, ArrayRole::Input, {});
  Array k = make_array("k", ScalarType::I32, {var(n)}, ArrayRole::Input, {});
  EmitState state{ir::Program{"p", {n}, {x, k}, {}, {}, {}}};
  Expr vi = var(i), vn = var(n);

  ExprText() { state.names = NameTable(); }  // as declared, so that the texts read well

  std::string text(const Expr& e) { return text_of(e, state); }
  static Expr f32(double value) { return float_const(value, ScalarType::F32); }
  static Expr f64(double value) { return float_const(value, ScalarType::F64); }
};

TEST_F(ExprText, ParenthesesOnlyWhereTheTreeNeedsThem) {
  const Expr a = load(x, {vi, vi});
  EXPECT_EQ(text(a + a * a), "x[i * (n + 1) + i] + x[i * (n + 1) + i] * x[i * (n + 1) + i]");
  const Expr s = vi + vn;
  EXPECT_EQ(text(s * s), "(i + n) * (i + n)");
  EXPECT_EQ(text(vi - (vn - vi)), "i - (n - i)");
  EXPECT_EQ(text((vi - vn) - vi), "i - n - i");
  EXPECT_EQ(text(vi + (vn + vi)), "i + (n + i)");
  EXPECT_EQ(text(-(-vi - vn)), "-(-i - n)");
  const Expr less = binary(BinaryOp::Lt, vi, vn), more = binary(BinaryOp::Gt, vi, vn);
  EXPECT_EQ(text(binary(BinaryOp::And, binary(BinaryOp::Or, less, more), unary(UnaryOp::Not, less))),
            "(i < n || i > n) && !(i < n)");
  EXPECT_EQ(text(select(less, vi, select(more, vn, vi)) + vi), "(i < n ? i : i > n ? n : i) + i");
}

TEST_F(ExprText, FloatLiteralsReadBackAsTheSameBits) {
  EXPECT_EQ(text(f32(0.1)), "0.1f");
  EXPECT_EQ(text(f32(1)), "1.0f");
  EXPECT_EQ(text(f64(0.1)), "0.1");
  EXPECT_EQ(text(f32(-0.0)), "-0.0f");
  EXPECT_EQ(text(f32(std::numeric_limits<float>::denorm_min())), "1e-45f");
  for (const float value : {1.0f / 3.0f, 16777217.0f, 3.4028235e38f, 1.17549435e-38f, 1e10f}) {
    const std::string literal = text(f32(static_cast<double>(value)));
    EXPECT_EQ(std::strtof(literal.c_str(), nullptr), value) << literal;
    EXPECT_EQ(literal.back(), 'f');
  }
  EXPECT_EQ(text(f32(INFINITY)), "INFINITY");
  EXPECT_EQ(text(f64(-INFINITY)), "-double(INFINITY)");
  EXPECT_EQ(text(f32(NAN)), "NAN");
}

TEST_F(ExprText, IntegerLiteralsKeepTheirType) {
  const std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(text(int_const(lowest)), "INT64_MIN");
  const std::int64_t lowest_i32 = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(text(int_const(lowest_i32, ScalarType::I32)), "INT32_MIN");
  EXPECT_EQ(text(load(k, {vi}) + int_const(lowest_i32, ScalarType::I32)), "k[i] + INT32_MIN");
  EXPECT_EQ(text(load(k, {vi}) - int_const(lowest_i32, ScalarType::I32)), "k[i] - INT32_MIN");
  EXPECT_EQ(text(vi + int_const(lowest)), "i + INT64_MIN");
  EXPECT_EQ(text((vi + int_const(lowest)) + int_const(lowest)), "i + INT64_MIN + INT64_MIN");
  EXPECT_EQ(text(-int_const(lowest_i32, ScalarType::I32)), "INT32_MIN");
  EXPECT_EQ(text(int_const(std::int64_t{1} << 31, ScalarType::I32)), "INT32_MIN");
  // Deduced template arguments and expressions of literals only would otherwise be computed in int.
  EXPECT_EQ(text(binary(BinaryOp::Max, vi, int_const(0))), "max_of(i, int64_t(0))");
  const Expr less = binary(BinaryOp::Lt, vi, vn);
  EXPECT_EQ(text(select(less, int_const(1), int_const(2))), "i < n ? int64_t(1) : 2");
  EXPECT_TRUE(state.helpers.count(Helper::MaxOf));
}

TEST_F(ExprText, PlainDivisionOnlyForNonNegativeDividends) {
  auto div = [](const Expr& a, const Expr& b) { return binary(BinaryOp::FloorDiv, a, b); };
  auto mod = [](const Expr& a, const Expr& b) { return binary(BinaryOp::Mod, a, b); };
  EXPECT_EQ(text(div(vn, int_const(2))), "n / 2");  // sizes are non-negative
  EXPECT_EQ(text(mod(vn * vn + int_const(1), int_const(3))), "(n * n + 1) % 3");
  EXPECT_TRUE(state.helpers.empty());
  EXPECT_EQ(text(div(vi, int_const(2))), "floor_div(i, int64_t(2))");  // an iterator of unknown range
  EXPECT_EQ(text(mod(vn - int_const(1), int_const(2))), "floor_mod(n - 1, int64_t(2))");
  EXPECT_EQ(text(div(vn, vn)), "floor_div(n, n)");
  state.non_negative.insert(i);
  EXPECT_EQ(text(div(vi, int_const(2))), "i / 2");
  // A random number wraps around, once or after a few steps.
  const Expr step = vi * int_const(6364136223846793005) + int_const(1442695040888963407);
  EXPECT_NE(text(mod(step, int_const(10))).find("floor_mod("), std::string::npos);
  const auto short_step = [](const Expr& e) { return e * int_const(1103515245) + int_const(12345); };
  EXPECT_EQ(text(mod(short_step(vi), int_const(10))).find("floor_mod("), std::string::npos);
  EXPECT_NE(text(mod(short_step(short_step(vi)), int_const(10))).find("floor_mod("), std::string::npos);
  const Expr element = cast(ScalarType::I64, load(k, {vi}));
  EXPECT_EQ(text(mod(element, int_const(8))), "floor_mod(int64_t(k[i]), int64_t(8))");
  state.non_negative_data.insert(k);
  EXPECT_EQ(text(mod(element, int_const(8))), "int64_t(k[i]) % 8");
}

TEST_F(ExprText, ElementsAreFlattened) {
  const Array t = make_array("t", ScalarType::F32, {vn, int_const(3), vn}, ArrayRole::Input, {});
  EXPECT_EQ(element_text(t, {vi, int_const(2), vi + int_const(1)}, state), "t[(i * 3 + 2) * n + i + 1]");
  EXPECT_EQ(element_text(t, {int_const(0), int_const(0), vi}, state), "t[i]");
  EXPECT_EQ(element_text(t, {int_const(0), vi, int_const(0)}, state), "t[i * n]");
  EXPECT_EQ(element_text(t, {int_const(0), int_const(0), int_const(0)}, state), "t[0]");
  const Array column = make_array("column", ScalarType::F32, {vn, int_const(1)}, ArrayRole::Input, {});
  EXPECT_EQ(element_text(column, {vi, int_const(0)}, state), "column[i]");
  const Array scalar = make_array("loss", ScalarType::F32, {}, ArrayRole::Output, {});
  EXPECT_EQ(element_text(scalar, {}, state), "loss[0]");
  const Array local = make_array("s", ScalarType::F32, {}, ArrayRole::Local, {});
  EXPECT_EQ(element_text(local, {}, state), "s");
}

TEST_F(ExprText, StorageTypesAreConverted) {
  const Array h = make_array("h", ScalarType::F16, {vn}, ArrayRole::Input, {});
  EXPECT_EQ(text(load(h, {vi})), "from_f16(h[i])");
  EXPECT_EQ(stored(ScalarType::BF16, "s", state), "to_bf16(s)");
  EXPECT_EQ(stored(ScalarType::F32, "s", state), "s");
}

TEST_F(ExprText, CastsAndFunctions) {
  const Expr e = load(x, {vi, vi});
  EXPECT_EQ(text(cast(ScalarType::Bool, vi + vn)), "i + n != 0");
  EXPECT_EQ(text(cast(ScalarType::F64, e)), "double(x[i * (n + 1) + i])");
  // `double(float(k[i]))` alone could be the type of a function.
  EXPECT_EQ(text(cast(ScalarType::F64, cast(ScalarType::F32, load(k, {vi})))), "static_cast<double>(float(k[i]))");
  EXPECT_EQ(text(cast(ScalarType::I32, e)), "to_integer<int32_t>(x[i * (n + 1) + i])");
  EXPECT_TRUE(state.helpers.count(Helper::ToInteger));
  EXPECT_EQ(text(unary(UnaryOp::Abs, f32(-2))), "std::abs(-2.0f)");
  EXPECT_EQ(text(unary(UnaryOp::Abs, vi)), "abs_of(i)");
  EXPECT_EQ(text(binary(BinaryOp::Pow, f32(2), f32(3))), "library::pow(2.0f, 3.0f)");
  EXPECT_EQ(text(-f32(2) - f32(-3)), "-2.0f - -3.0f");
}

// `%` of C++ has the sign of its operand.
TEST_F(ExprText, RemaindersOfWhatMayWrapAround) {
  const auto remainder = [&](const Expr& e) { return text(binary(BinaryOp::Mod, e, int_const(1024))); };
  state.non_negative.insert(i);
  EXPECT_EQ(remainder(vi * int_const(3) + vi), "(i * 3 + i) % 1024");
  EXPECT_EQ(remainder(vi * (vi + int_const(1))), "i * (i + 1) % 1024") << "of a triangle";
  EXPECT_EQ(remainder(vi * vi * int_const(1103515245)), "floor_mod(i * i * 1103515245, int64_t(1024))");
  EXPECT_EQ(remainder(vi * vi * vi), "floor_mod(i * i * i, int64_t(1024))");
}

TEST_F(ExprText, DevicesLetDataWrapAround) {
  state.device = true;
  const Expr small = load(k, {vi}), large = cast(ScalarType::I64, small);
  EXPECT_EQ(text(small + small), "wrapping_add(k[i], k[i])");
  EXPECT_EQ(text(-small), "wrapping_sub(0, k[i])");
  EXPECT_EQ(text(large * int_const(3)), "wrapping_mul(int64_t(k[i]), int64_t(3))");
  EXPECT_EQ(text(vi * vn + vi), "i * n + i") << "indices do not overflow";
  EXPECT_EQ(text(load(k, {large + vi})), "k[int64_t(k[i]) + i]");
  EXPECT_EQ(text(binary(BinaryOp::Pow, f32(2), f32(3))), "power(2.0f, 3.0f)");
}

}  // namespace
}  // namespace loopgrad::backend
