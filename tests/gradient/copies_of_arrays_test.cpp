// Whole arrays on the tape, in place of what each of their readers saw.
#include "tests/gradient/jacobian.h"

namespace loopgrad::test {
namespace {

/// Counters are read in the bounds of a loop, in front of which its body's reads are saved too.
TEST(CopiesOfArrays, BoundsAreReadInFrontOfTheirLoop) {
  ProgramBuilder p("bounds");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {m});
  auto idx = p.input<int>("idx", {n, 4});
  p.in_range(idx, 0, 2);
  auto c = p.inout<int>("c", {2});
  auto y = p.inout<double>("y", {m});
  for (auto i : p.loop("i", n)) {
    const auto at = [&](int k) { return c(idx(i, k)); };
    for (auto j : p.loop("j", 0, cast<std::int64_t>(at(0)) % m, {.at_most = {m}}))
      y(j) += sin(x(j)) * cast<double>(at(0) + at(1) + at(2) + at(3));
    c(idx(i, 0)) = at(0) + 1;
  }
  EXPECT_TRUE(gradient_is_right(p.build(), {.sizes = {{"n", 3}, {"m", 4}},
                                            .values = {{"idx", {0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1}}, {"c", {1, 2}}},
                                            .options = {}}));
}

/// Steps that read a few elements of an array of any size, without or with a loop over all of it.
TEST(CopiesOfArrays, StepsThatReadFewElementsCopyNone) {
  for (const bool decays : {false, true}) {
    ProgramBuilder p("events");
    auto n = p.size("n"), steps = p.size("steps"), batch = p.size("batch");
    auto one = p.input<int>("one", {steps, batch}), other = p.input<int>("other", {steps, batch});
    p.in_range(one, 0, n);
    p.in_range(other, 0, n);
    auto k = p.input<double>("k", {steps});
    auto h = p.inout<double>("h", {n});
    for (auto s : p.loop("s", steps)) {
      auto f = p.local<double>("f", {batch});
      for (auto e : p.loop("e", batch)) f(e) = k(s) * h(one(s, e)) * h(other(s, e));
      for (auto e : p.loop("e2", batch)) {
        h(one(s, e)) -= f(e);
        h(other(s, e)) += f(e);
      }
      if (decays)
        for (auto i : p.loop("i", n)) h(i) = 0.9 * h(i);
    }
    const Program program = p.build();
    const std::string forward = differentiate(program, {}).forward.str();
    EXPECT_EQ(forward.find("[steps, n]") != std::string::npos, decays) << forward;
    EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 5}, {"steps", 2}, {"batch", 3}},
                                            .values = {{"one", {0, 1, 2, 3, 4, 0}}, {"other", {1, 1, 3, 0, 2, 0}}},
                                            .options = {}}));
  }
}

/// Neighbours that a list holds which each step makes anew: their places are saved, and all that was there is copied.
TEST(CopiesOfArrays, ListsThatStepsMakeAnewLeadIntoThem) {
  ProgramBuilder p("neighbours");
  auto n = p.size("n"), most = p.size("most"), steps = p.size("steps");
  auto strength = p.input<double>("strength", {n});
  auto x = p.inout<double>("x", {n, 2});
  auto list = p.local<int>("list", {n, most}), count = p.local<int>("count", {n});
  auto f = p.local<double>("f", {n, 2});
  for (auto s : p.loop("s", steps)) {
    (void)s;
    for (auto i : p.loop("i", n)) {
      count(i) = 0;
      for (auto j : p.loop("j", n))
        p.when(j != i && abs(x(i, 0) - x(j, 0)) < 0.6 && count(i) < most, [&] {
          list(i, count(i)) = cast<int>(j);
          count(i) += 1;
        });
    }
    for (auto i : p.loop("i", n)) {
      for (auto k : p.loop("k", 2)) f(i, k) = 0.0;
      for (auto e : p.loop("e", most))
        p.when(e < count(i), [&] {
          auto j = p.let("j", list(i, e));
          auto dx = p.let("dx", x(i, 0) - x(j, 0)), dy = p.let("dy", x(i, 1) - x(j, 1));
          auto push = p.let("push", strength(j) / (0.3 + dx * dx + dy * dy));
          f(i, 0) += push * dx;
          f(i, 1) += push * dy;
        });
    }
    for (auto [i, k] : p.loop({"i", n}, {"k", 2})) x(i, k) += 0.1 * f(i, k);
  }
  const Program program = p.build();
  const std::string forward = differentiate(program, {}).forward.str();
  EXPECT_NE(forward.find("x_tape[steps, n, 2]\n"), std::string::npos) << forward;
  EXPECT_EQ(forward.find("f64 x_tape[steps, n, most]"), std::string::npos) << forward;
  EXPECT_TRUE(
      gradient_is_right(program, {.sizes = {{"n", 5}, {"most", 3}, {"steps", 2}}, .values = {}, .options = {}}));
}

/// Extrema of different elements of one array, and a sum: which operand was taken is seen from what they are at last.
TEST(CopiesOfArrays, ExtremaInOneArrayNeedNoTape) {
  ProgramBuilder p("range");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto stats = p.output<double>("stats", {3}), y = p.output<double>("y", {n});
  stats(0) = 1e30;
  stats(1) = -1e30;
  stats(2) = 0.0;
  for (auto i : p.loop("i", n)) {
    stats(0).min_with(x(i) * x(i));
    stats(1).max_with(x(i));
    stats(2) += x(i);
  }
  for (auto i : p.loop("k", n)) y(i) = (x(i) - stats(0)) / (stats(1) - stats(0) + 0.1) + stats(2);
  const Program program = p.build();
  EXPECT_EQ(differentiate(program, {}).forward.str().find("tape"), std::string::npos);
  EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 5}}, .values = {}, .options = {}}));
}

}  // namespace
}  // namespace loopgrad::test
