// The type rules: weak literals, promotion, implicit conversion when storing.
#include "dsl/ir/printer.h"
#include "dsl/ir/stmt.h"

#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace lg = loopgrad;
using lg::ScalarType;

namespace {

struct Promotion : testing::Test {
  lg::ProgramBuilder p{"p"};
  lg::Value n = p.size("n");
  lg::ArrayHandle b = p.inout<bool>("b", {n});
  lg::ArrayHandle i32 = p.inout<std::int32_t>("i32", {n});
  lg::ArrayHandle i64 = p.inout<std::int64_t>("i64", {n});
  lg::ArrayHandle f16 = p.inout<lg::half>("f16", {n});
  lg::ArrayHandle f32 = p.inout<float>("f32", {n});
  lg::ArrayHandle f64 = p.inout<double>("f64", {n});

  static std::string text(const lg::Value& v) { return lg::ir::print(lg::ir::Expr(v.node())); }
  std::string body() { return lg::ir::print(p.build().ir().body); }
};

TEST_F(Promotion, GoesToTheWiderType) {
  EXPECT_EQ((i32(0) + i64(0)).type(), ScalarType::I64);
  EXPECT_EQ((i64(0) * f32(0)).type(), ScalarType::F32);
  EXPECT_EQ((f32(0) - f64(0)).type(), ScalarType::F64);
  EXPECT_EQ((b(0) + i32(0)).type(), ScalarType::I32);
  EXPECT_EQ((b(0) + b(0)).type(), ScalarType::I32);
  EXPECT_EQ(select(b(0), f32(0), f64(0)).type(), ScalarType::F64);
  EXPECT_EQ(max(i32(0), f32(0)).type(), ScalarType::F32);
  EXPECT_EQ(text(i64(0) * f32(1)), "f32(i64[0])*f32[1]");
}

TEST_F(Promotion, LiteralsTakeTheOtherType) {
  EXPECT_EQ((f32(0) * 0.5).type(), ScalarType::F32);
  EXPECT_EQ((0.5f * f64(0)).type(), ScalarType::F64);
  EXPECT_EQ((2 * f32(0)).type(), ScalarType::F32);
  EXPECT_EQ((i32(0) + 1).type(), ScalarType::I32);
  EXPECT_EQ((i32(0) + 5000000000).type(), ScalarType::I64) << "does not fit";
  EXPECT_EQ((i32(0) * 0.5).type(), ScalarType::F32);
  EXPECT_EQ((n * 0.5).type(), ScalarType::F32);
  EXPECT_EQ((b(0) + 1).type(), ScalarType::I64);
  EXPECT_EQ(min(f32(0), 1).type(), ScalarType::F32);
  EXPECT_EQ(pow(f32(0), 2).type(), ScalarType::F32);
  EXPECT_EQ(text(f32(0) * 0.1), "f32[0]*0.1") << "the literal is a float, not a rounded double";
  EXPECT_EQ(text(1 / f32(0)), "1/f32[0]");
}

TEST_F(Promotion, LiteralsAmongThemselvesFoldAndStayWeak) {
  const lg::Value half = lg::Value(1.0) / 2, seven = lg::Value(3) + 4;
  EXPECT_TRUE(half.weak());
  EXPECT_TRUE(seven.weak());
  EXPECT_EQ(text(half), "0.5");
  EXPECT_EQ(text(seven), "7");
  EXPECT_EQ((f32(0) * half).type(), ScalarType::F32);
  EXPECT_TRUE((lg::Value(2) * 0.5).weak());
  EXPECT_EQ((f32(0) + exp(lg::Value(1))).type(), ScalarType::F32);
  EXPECT_EQ((f32(0) + select(b(0), 1, 2)).type(), ScalarType::F32);
  EXPECT_FALSE((lg::Value(1) < 2).weak());
}

TEST_F(Promotion, SixteenBitValuesAreF32) {
  EXPECT_EQ((f16(0) + f16(1)).type(), ScalarType::F32);
  EXPECT_EQ(lg::cast<lg::half>(f64(0)).type(), ScalarType::F32);
}

TEST_F(Promotion, CastsToSixteenBitsRound) {
  EXPECT_EQ(text(lg::cast<lg::half>(f32(0))), text(lg::cast(ScalarType::F16, f32(0))));
  EXPECT_NE(text(lg::cast<lg::half>(f32(0))), text(f32(0)));
}

TEST_F(Promotion, DivisionFollowsTheType) {
  EXPECT_EQ(text(n / 2), "n//2");
  EXPECT_EQ(text(n % 2), "n%2");
  EXPECT_EQ(text(f32(0) / 2), "f32[0]/2");
  EXPECT_EQ(text(n / f32(0)), "f32(n)/f32[0]");
}

TEST_F(Promotion, MathFunctionsMakeIntegersF32) {
  EXPECT_EQ(sqrt(i32(0)).type(), ScalarType::F32);
  EXPECT_EQ(pow(n, 2).type(), ScalarType::F32);
  EXPECT_EQ(exp(f64(0)).type(), ScalarType::F64);
  EXPECT_EQ(abs(i32(0)).type(), ScalarType::I32);
  EXPECT_EQ((-b(0)).type(), ScalarType::I32);
}

TEST_F(Promotion, StoresConvertImplicitly) {
  f32(0) = f64(0);
  f64(0) = f32(0);
  f32(1) = i32(0);
  f32(2) += 1;
  f16(0) = 0.1;
  i32(0) = i64(0);
  i64(0) = b(0);
  b(0) = f32(0) > 0;
  i32(1) = lg::cast<int>(f32(0));
  EXPECT_EQ(body(),
            "f32[0] = f32(f64[0])\n"
            "f64[0] = f64(f32[0])\n"
            "f32[1] = f32(i32[0])\n"
            "f32[2] += 1\n"
            "f16[0] = f16(0.1)\n"
            "i32[0] = i32(i64[0])\n"
            "i64[0] = i64(b[0])\n"
            "b[0] = f32[0] > 0\n"
            "i32[1] = i32(f32[0])\n");
}

TEST_F(Promotion, IndicesAreI64) {
  f32(i32(0)) = 1;
  f32(i64(0) + i32(1)) = f32(n - 1);
  EXPECT_EQ(body(), "f32[i32[0]] = 1\nf32[i64[0] + i32[1]] = f32[n - 1]\n");
}

}  // namespace
