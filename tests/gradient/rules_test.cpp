// Every operation's derivative, through every variant, against forward mode and central differences.
#include "tests/gradient/jacobian.h"

namespace loopgrad::test {
namespace {

struct Rule {
  const char* name;
  Value (*apply)(const Value& a, const Value& b);
};
void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

class Rules : public ::testing::TestWithParam<Rule> {};

TEST_P(Rules, IsRight) {
  ProgramBuilder p(GetParam().name);
  auto n = p.size("n");
  auto a = p.input<double>("a", {n});
  auto b = p.input<double>("b", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = GetParam().apply(a(i), b(i));
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 6}}, .values = {}, .options = {}}));
}

/// The same rule where its result is overwritten at once, so that it cannot be reused.
TEST_P(Rules, IsRightWhenTheResultIsOverwritten) {
  ProgramBuilder p(GetParam().name);
  auto n = p.size("n");
  auto a = p.input<double>("a", {n});
  auto y = p.inout<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = GetParam().apply(0.5 * y(i), a(i));
  for (auto i : p.loop("i", 0, n)) y(i) = y(i) * a(i);
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 6}}, .values = {}, .options = {}}));
}

#define RULE(name, expression)                                                     \
  Rule {                                                                           \
#name, [](const Value& a, const Value& b) -> Value { (void)b; return expression; } \
  }
INSTANTIATE_TEST_SUITE_P(
    All, Rules,
    ::testing::Values(RULE(neg, -a), RULE(abs, abs(a - b)), RULE(sqrt, sqrt(a)), RULE(exp, exp(a)), RULE(log, log(a)),
                      RULE(sin, sin(a)), RULE(cos, cos(a)), RULE(tan, tan(a)), RULE(asin, asin(0.5 * a)),
                      RULE(acos, acos(0.5 * a)), RULE(atan, atan(a)), RULE(sinh, sinh(a)), RULE(cosh, cosh(a)),
                      RULE(tanh, tanh(a)), RULE(sigmoid, sigmoid(a)), RULE(erf, erf(a)), RULE(log1p, log1p(a)),
                      RULE(expm1, expm1(a)), RULE(floor, floor(a) + a), RULE(ceil, ceil(a) * b), RULE(add, a + b),
                      RULE(sub, a - b), RULE(mul, a* b), RULE(div, a / b), RULE(min, min(a, b)), RULE(max, max(a, b)),
                      RULE(pow, pow(a, b)), RULE(square, pow(a, 2.0)), RULE(cube, pow(a, 3.0)),
                      RULE(atan2, atan2(a, b)), RULE(fma, fma(a, b, a)), RULE(select, select(a < b, a* a, b* a)),
                      RULE(cast, cast<double>(cast<float>(a) * 2.0f) * b), RULE(twice, a* a + a * b + a)),
    [](const auto& rule) { return std::string(rule.param.name); });

TEST(Rules, APowerIsRightWhereTheNextLowerOneUnderflows) {
  ProgramBuilder p("power");
  auto a = p.input<double>("a", {1});
  auto b = p.input<double>("b", {1});
  auto y = p.output<double>("y", {1});
  y(0) = pow(a(0), b(0));
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {}, .values = {{"a", {1e300}}, {"b", {-0.07}}}, .options = {}}));
}

}  // namespace
}  // namespace loopgrad::test
