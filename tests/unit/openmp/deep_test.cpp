// Programs as large as the C++ loops that record them, compiled and run.
#include "tests/unit/openmp/kernels.h"

#include <loopgrad/compile.h>

#include <cmath>

namespace loopgrad::test {
namespace {

void expect_additions(int count, lg::Target target) {
  lg::ProgramBuilder p("additions");
  auto x = p.inout<double>("x", {1});
  lg::Value v = x(0);
  for (int i = 0; i < count; ++i) v = v + 1.0;
  x(0) = v;
  double value = 1;
  compile(p.build(), {.target = target}).run({{"x", view(&value, {1})}});
  EXPECT_EQ(value, 1 + count);
}

// GCC itself recurses on the length of a chain when it replaces temporaries: at 100,000 it runs out of stack.
TEST(DeepPrograms, TenThousandAdditions) { expect_additions(10'000, lg::Target::OpenMP); }
TEST(DeepPrograms, AHundredThousandAdditions) { expect_additions(100'000, lg::Target::Interpreter); }

TEST(DeepPrograms, TheGradientOfTwoThousandSines) {
  lg::ProgramBuilder p("sines");
  auto x = p.input<double>("x", {});
  auto y = p.output<double>("y", {});
  lg::Value v = x();
  for (int i = 0; i < 2'000; ++i) v = sin(v);
  y() = v;
  const auto gradient = compile_gradient(p.build());
  double value = 1, result = 0, seed = 1, derivative = 0, expected = 1, state = 1;
  for (int i = 0; i < 2'000; ++i) {
    expected *= std::cos(state);
    state = std::sin(state);
  }
  lg::Arguments arrays = {{"x", view(&value, {})}, {"y", view(&result, {})}};
  gradient.forward(arrays);
  arrays["d_y"] = view(&seed, {});
  arrays["d_x"] = view(&derivative, {});
  gradient.backward(arrays);
  EXPECT_NEAR(result, state, 1e-12);
  EXPECT_NEAR(derivative / expected, 1, 1e-9);
}

TEST(DeepPrograms, SharedIntegersStayShared) {
  const auto source_of = [](int doublings) {
    lg::ProgramBuilder p("doublings");
    auto x = p.input<std::int64_t>("x", {2});
    auto y = p.output<std::int64_t>("y", {2});
    lg::Value v = x(0), w = x(1);
    for (int i = 0; i < doublings; ++i) {
      v = v + v;
      w = w * w - 1;
    }
    y(0) = v;
    y(1) = w;
    const auto executable = compile(p.build());
    const std::int64_t ones[2] = {1, 1};
    std::int64_t values[2] = {};
    executable.run({{"x", view(ones, {2})}, {"y", view(values, {2})}});
    EXPECT_EQ(values[0], std::int64_t{1} << doublings);
    EXPECT_EQ(values[1], doublings % 2 ? 0 : -1);
    return executable.source().size();
  };
  EXPECT_LE(source_of(40), 3 * source_of(20));
  EXPECT_LE(source_of(40), 40'000u);
}

TEST(DeepPrograms, AThousandStatements) {
  lg::ProgramBuilder p("statements");
  auto a = p.inout<double>("a", {16});
  auto b = p.input<double>("b", {16});
  for (int s = 0; s < 1'008; ++s) a(s % 16) += b(s * 7 % 16);
  const auto gradient = compile_gradient(p.build());
  std::vector<double> as(16), bs(16, 1), d_a(16, 1), d_b(16);
  lg::Arguments arrays = {{"a", view(as.data(), {16})}, {"b", view(bs.data(), {16})}};
  gradient.forward(arrays);
  arrays["d_a"] = view(d_a.data(), {16});
  arrays["d_b"] = view(d_b.data(), {16});
  gradient.backward(arrays);
  EXPECT_EQ(d_b[0], 63);
}

}  // namespace
}  // namespace loopgrad::test
