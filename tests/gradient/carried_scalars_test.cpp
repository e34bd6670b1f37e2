// Scalars that loops carry though they follow from iterators: gradients, and what is on the tape.
#include "tests/gradient/jacobian.h"

namespace loopgrad::test {
namespace {

void check(const Program& program, const std::vector<Sizes>& all) {
  for (const Sizes& sizes : all) {
    EXPECT_EQ(tape_bytes(program, sizes), 0) << differentiate(program, {}).forward.str();
    EXPECT_TRUE(gradient_is_right(program, {.sizes = sizes, .values = {}, .options = {}}));
  }
}

TEST(CarriedScalars, CountersNeedNoTape) {
  for (const bool descending : {false, true}) {
    ProgramBuilder p("counters");
    auto n = p.size("n");
    auto x = p.input<double>("x", {2 * n + 2});
    auto y = p.output<double>("y", {2 * n + 2});
    auto k = p.scalar<std::int64_t>("k", 0);
    auto small = p.scalar<int>("small", 2 * 3);
    for (auto i : p.loop("i", 0, n, {.descending = descending})) {
      y(k) = sin(x(k + 1)) * x(i);
      k += 1;
      k += 1;
      small -= 1;
      y(k - 1) = x(i) * cast<double>(small);
    }
    y(k) = x(k) * x(k);
    check(p.build(), {{{"n", 0}}, {{"n", 1}}, {{"n", 4}}});
  }
}

TEST(CarriedScalars, CountersOfNestsNeedNoTape) {
  ProgramBuilder p("nest");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n * m + n + 1});
  auto y = p.output<double>("y", {n, m});
  auto k = p.scalar<std::int64_t>("k", 0);
  for (auto i : p.loop("i", n)) {
    for (auto j : p.loop("j", m)) {
      y(i, j) = x(k) * x(k);
      k += 1;
    }
    k += 1;
  }
  check(p.build(), {{{"n", 3}, {"m", 4}}, {{"n", 2}, {"m", 0}}, {{"n", 0}, {"m", 2}}, {{"n", 1}, {"m", 1}}});
}

TEST(CarriedScalars, ValuesOfTheIterationsBeforeNeedNoTape) {
  for (const bool descending : {false, true}) {
    ProgramBuilder p("before");
    auto n = p.size("n");
    auto b = p.input<double>("b", {n + 1});
    auto a = p.output<double>("a", {n}), rest = p.output<double>("rest", {2});
    auto x = p.scalar<double>("x", b(n)), y = p.scalar<double>("y", b(0));
    auto before = p.scalar<std::int64_t>("before", 0);
    for (auto i : p.loop("i", 0, n, {.descending = descending})) {
      a(i) = sin(b(i) * x) + y * b(before);
      y = x;
      x = b(i) * 2.0;
      before = i;
    }
    rest(0) = x * y;
    rest(1) = b(before) * x;
    check(p.build(), {{{"n", 0}}, {{"n", 1}}, {{"n", 2}}, {{"n", 5}}});
  }
}

TEST(CarriedScalars, TheLastValueIsTheLastIterations) {
  ProgramBuilder p("last");
  auto n = p.size("n"), m = p.size("m");
  auto b = p.input<double>("b", {n, m}), c = p.input<double>("c", {});
  auto a = p.output<double>("a", {n}), out = p.output<double>("out", {});
  auto t = p.scalar<double>("t", c() * c());
  for (auto i : p.loop("i", n)) {
    t = 1.0;
    for (auto j : p.loop("j", m)) t += b(i, j) * b(i, j);
    a(i) = t + c();
  }
  out() = t * t;
  const Program program = p.build();
  for (const Sizes& sizes : {Sizes{{"n", 0}, {"m", 2}}, Sizes{{"n", 1}, {"m", 3}}, Sizes{{"n", 4}, {"m", 2}}})
    EXPECT_TRUE(gradient_is_right(program, {.sizes = sizes, .values = {}, .options = {}}));
}

}  // namespace
}  // namespace loopgrad::test
