// Gradients of expressions that are deep, shared or guarded: what names their parts changes no derivative.
#include "tests/gradient/jacobian.h"

namespace loopgrad::test {
namespace {

TEST(DeepGradients, ALongChainOfSines) {
  ProgramBuilder p("sines");
  auto x = p.input<double>("x", {2});
  auto y = p.output<double>("y", {});
  Value v = x(0);
  for (int i = 0; i < 1'000; ++i) v = sin(v) * x(1) + v;
  y() = v;
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {}, .values = {}, .options = {}}));
}

TEST(DeepGradients, ValuesUnderGuards) {
  ProgramBuilder p("guarded");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    Value v = sqrt(x(i) - 0.75), w = x(i);  // not a number where the guard does not hold
    for (int k = 0; k < 8; ++k) v = v * v * 0.25 + v;
    for (int k = 0; k < 200; ++k) w = select(w < 0.25 + 0.01 * k, w * 1.125 + 0.01, w * 0.875);
    y(i) = select(x(i) > 0.75 && w > 0.0, v * v, w * w);
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 5}}, .values = {}, .options = {}}));
}

TEST(DeepGradients, IndicesThatAreNamed) {
  ProgramBuilder p("named_indices");
  auto n = p.size("n");
  auto k = p.input<std::int64_t>("k", {n});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = x(i);
  for (auto i : p.loop("i", 0, n)) {
    Value at = k(i);
    for (int step = 0; step < 20; ++step) at = (at * at + 1) % n;
    y(at) += x(at) * x(i);
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 5}}, .values = {{"k", {3, 0, 4, 2, 2}}}, .options = {}}));
}

}  // namespace
}  // namespace loopgrad::test
