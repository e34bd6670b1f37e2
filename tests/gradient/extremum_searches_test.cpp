// Extrema that loops keep with what belongs to them: gradients, and what is on the tape.
#include "tests/gradient/jacobian.h"

namespace loopgrad::test {
namespace {

void check(const Program& program, const std::vector<Sizes>& all, std::int64_t tape,
           const std::map<std::string, std::vector<double>>& values = {}) {
  for (const Sizes& sizes : all) {
    EXPECT_EQ(tape_bytes(program, sizes), tape) << differentiate(program, {}).forward.str();
    EXPECT_TRUE(gradient_is_right(program, {.sizes = sizes, .values = values, .options = {}}));
  }
}

TEST(ExtremumSearches, ATapeHasTheIterationThatWasTaken) {
  for (const bool descending : {false, true}) {
    ProgramBuilder p("largest");
    auto n = p.size("n");
    auto a = p.input<double>("a", {n}), w = p.input<double>("w", {n});
    auto out = p.output<double>("out", {});
    auto top = p.scalar<double>("top", 0.5);
    auto at = p.scalar<std::int64_t>("at", 0);
    auto other = p.scalar<double>("other", 1);
    for (auto i : p.loop("i", 0, n, {.descending = descending}))
      p.when(a(i) * a(i) > top, [&] {
        top = a(i) * a(i);
        at = i;
        other = w(i) * top;
      });
    out() = sin(top) * other;
    check(p.build(), {{{"n", 0}}, {{"n", 1}}, {{"n", 4}}, {{"n", 9}}}, 16);  // and `top`
  }
}

TEST(ExtremumSearches, OfEqualOnesAsInOrder) {
  for (const bool last : {false, true}) {
    ProgramBuilder p("ties");
    auto n = p.size("n");
    auto a = p.input<double>("a", {n}), w = p.input<double>("w", {n});
    auto out = p.output<double>("out", {});
    auto low = p.scalar<double>("low", 9);
    auto other = p.scalar<double>("other", 0);
    for (auto i : p.loop("i", n))
      p.when(last ? a(i) <= low : low > a(i), [&] {
        low = a(i);
        other = w(i) * w(i);
      });
    out() = other * 2.0;
    const Program program = p.build();
    EXPECT_LE(tape_bytes(program, {{"n", 5}}), 8);
    // a is an input like others: its values decide which w has a derivative.
    EXPECT_TRUE(gradient_is_right(
        program, {.sizes = {{"n", 5}}, .values = {{"a", {3, 2, 7, 2, 4}}}, .options = {.wrt = {"w"}}}));
  }
}

TEST(ExtremumSearches, PlacesAndNests) {
  ProgramBuilder p("closest");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n + 1, 2});
  auto out = p.output<double>("out", {2});
  auto low = p.scalar<double>("low", 100);
  auto k = p.scalar<std::int64_t>("k", 0), l = p.scalar<std::int64_t>("l", 0), m = p.scalar<std::int64_t>("m", 0);
  for (auto i : p.loop("i", n))
    for (auto j : p.loop("j", i + 1, n)) {
      auto dx = p.let("dx", x(i, 0) - x(j, 0)), dy = p.let("dy", x(i, 1) - x(j, 1));
      auto d = p.let("d", dx * dx + dy * dy);
      p.when(d < low, [&] {
        low = d;
        k = i;
        l = j;
      });
    }
  for (auto i : p.loop("i", 1, n)) p.when(x(i, 0) >= x(m, 0), [&] { m = i; });
  out(0) = low * x(k, 0) * x(l, 1);
  out(1) = x(m, 0) * x(m, 0);
  check(p.build(), {{{"n", 0}}, {{"n", 1}}, {{"n", 2}}, {{"n", 7}}}, 24);
}

TEST(ExtremumSearches, RowsShortAndLong) {
  ProgramBuilder p("nearest");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {n}), b = p.input<double>("b", {m});
  auto out = p.output<double>("out", {n}), weight = p.output<double>("weight", {n, 2});
  for (auto i : p.loop("i", n)) {
    out(i) = 100.0;
    for (auto c : p.loop("c", 2)) weight(i, c) = 0.0;
    for (auto j : p.loop("j", m)) {
      auto d = p.scalar<double>("d", 0);
      d += (a(i) - b(j)) * (a(i) - b(j));
      p.when(d < out(i), [&] {
        out(i) = d;
        for (auto c : p.loop("c", 2)) weight(i, c) = d * b(j);
      });
    }
  }
  const Program program = p.build();
  for (const std::int64_t m_of : {0, 3, 70}) check(program, {{{"n", 3}, {"m", m_of}}}, 3 * 8);
}

}  // namespace
}  // namespace loopgrad::test
