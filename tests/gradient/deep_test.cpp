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

// The array is kept for each pair of entries of a row: counted from the first of the row, inside of which it is made.
TEST(DeepGradients, ArraysOfPairsInRows) {
  ProgramBuilder p("row_pairs");
  auto n = p.size("n"), entries = p.size("entries"), m = p.size("m");
  auto ptr = p.input<int>("ptr", {n + 1});
  auto x = p.input<double>("x", {entries});
  auto y = p.output<double>("y", {entries});
  p.csr(ptr, entries);
  for (auto v : p.loop("v", n))
    for (auto a : p.loop("a", ptr(v), ptr(v + 1))) {
      y(a) = 0;
      for (auto b : p.loop("b", ptr(v), ptr(v + 1))) {
        auto w = p.local<double>("w", {m});
        for (auto l : p.loop("l", m)) w(l) = exp(x(b) * (l + 1));
        for (auto l : p.loop("l", m)) y(a) += w(l) * w(l) * x(a);
      }
    }
  EXPECT_TRUE(gradient_is_right(
      p.build(), {.sizes = {{"n", 3}, {"entries", 6}, {"m", 2}}, .values = {{"ptr", {0, 2, 2, 6}}}, .options = {}}));
}

// So many holes that the domain of the sum is not cut by the last of them: who gathers asks for these again.
TEST(DeepGradients, SumsWithManyHoles) {
  ProgramBuilder p("holes");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<double>("x", {n + k}), w = p.input<double>("w", {k});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    y(i) = 0;
    for (auto j : p.loop("j", k))
      p.when(i != 3 && j != 1, [&] {
        p.when(i + j != 8, [&] {
          p.when(i - j != 2,
                 [&] { p.when(i + j != 11 && i != 9 && i != 5, [&] { y(i) += x(i + j) * x(i + j) * w(j); }); });
        });
      });
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 13}, {"k", 4}}, .values = {}, .options = {}}));
}

}  // namespace
}  // namespace loopgrad::test
