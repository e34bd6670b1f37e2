// Counters under conditions: see dsl/symbolic/growing_counters.h.
#include "tests/property/once_wrong.h"

#include <limits>

namespace loopgrad::fuzz {
namespace {

/// A tape within a budget: two orders of arrays made a segment lose the counter, where memory happened to lie so: hence
/// several times.
Program packed_within_budget() {
  ProgramBuilder p("packed_within_budget");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), a = p.inout<double>("a", {n + 1});
  auto j = p.scalar<std::int64_t>("j", 0);
  for (auto i : p.loop("i", n))
    p.when(x(i) > 0.0, [&] {
      j += 1;
      a(j) = 1.0;
    });
  return p.build();
}

/// What is known of a branch: its tape is written and not read, and the fact about it was about no array of the
/// backward program (internal error in differentiate).
Program never_packed() {
  ProgramBuilder p("never_packed");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), a = p.inout<double>("a", {n + 1});
  auto j = p.scalar<std::int64_t>("j", 0), mode = p.scalar<std::int64_t>("mode", 2);
  for (auto i : p.loop("i", n))
    p.when(mode > 2, [&] {
       a(j) = 0.5;
       j += 1;
     }).otherwise([&] { a(i) = a(i) * x(i); });
  return p.build();
}

/// The least number has no absolute value: twice that is nothing, and the counter comes back (GrowingCounters).
Program steps_of_half_the_range() {
  ProgramBuilder p("steps_of_half_the_range");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), a = p.inout<double>("a", {n});
  auto j = p.scalar<std::int64_t>("j", 0);
  for (auto i : p.loop("i", n)) {
    j += std::numeric_limits<std::int64_t>::min();
    p.when(j >= 0, [&] { a(j) = a(j) * 0.5 + x(i) * x(i); });
  }
  return p.build();
}

/// Remainders of what wraps around need not differ: of 2^63 - 1 and of -2^63 by 3 both are 1.
Program remainders_that_wrap() {
  ProgramBuilder p("remainders_that_wrap");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  auto a = p.local<double>("a", {3});
  for (auto i : p.loop("i", n)) {
    for (auto q : p.loop("q", 3)) a(q) = x(i);
    const Value k = (i + most) % 3, h = (i + most + 1) % 3;
    a(k) = x(i) * x(i);
    a(h) = x(i) * 3.0;
    y(i) = a(k) * a(h);
  }
  return p.build();
}

/// A counter that is set and used under one condition: the scan for it read it where it had no value (a false alarm in
/// checked execution of what a GPU runs).
Program set_and_used_under_one_condition() {
  ProgramBuilder p("set_and_used_under_one_condition");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), f = p.input<double>("f", {2}), a = p.inout<double>("a", {n + 1});
  auto j = p.local<std::int64_t>("j");
  p.when(f(0) > 10.0, [&] { j() = std::int64_t(0); });
  for (auto i : p.loop("i", n))
    p.when(f(0) > 10.0 && x(i) > 0.0, [&] {
      j() += 1;
      a(j()) = a(j()) * x(i);
    });
  return p.build();
}

const std::vector<Sizes> five = {{{"n", 5}}};

/// A counter from above: iterations that store nothing have no number of their own.
Program downwards_times_itself() {
  ProgramBuilder p("downwards_times_itself");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto c = p.inout<double>("c", {n + 1});
  auto j = p.scalar<std::int64_t>("j", 0);
  j = n;
  for (auto i : p.loop("i", n)) {
    p.when(x(i) > 0.0, [&] {
      c(j - 1) = c(j - 1) * x(i);
      j -= 1;
    });
  }
  return p.build();
}

/// Places from a counter that each iteration around sets back: its elements meet those of other iterations.
Program counter_that_goes_back() {
  ProgramBuilder p("counter_that_goes_back");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto total = p.output<double>("total", {});
  total() = 0.5;
  for (auto i : p.loop("i", 4)) {
    (void)i;
    auto y = p.local<double>("y", {n + 8});
    for (auto j : p.loop("j", n + 8)) y(j) = 0.0;
    auto position = p.scalar<std::int64_t>("position", 0);
    for (auto j : p.loop("j1", n)) {
      for (auto k : p.loop("k", position, position + 3)) {
        y(k) = 0.6 * y(k) + 0.4 * (x(j) * x(j));
        position += 1;
      }
      p.when(position >= n, [&] { position = position % n; });
    }
    for (auto j : p.loop("j2", n + 8)) total() += y(j) / (1.0 + y(j) * y(j));
  }
  return p.build();
}

TEST(OnceWrongCounters, CounterThatGoesBack) { expect_right(counter_that_goes_back, {{{"n", 2}}, {{"n", 5}}}); }

TEST(OnceWrongCounters, PackedWithinBudget) {
  for (int k = 0; k < 8; ++k) expect_right(packed_within_budget, five);
}
TEST(OnceWrongCounters, NeverPacked) { expect_right(never_packed, five); }
TEST(OnceWrongCounters, StepsOfHalfTheRange) { expect_right(steps_of_half_the_range, five); }
TEST(OnceWrongCounters, RemaindersThatWrap) { expect_right(remainders_that_wrap, five); }
TEST(OnceWrongCounters, SetAndUsedUnderOneCondition) { expect_right(set_and_used_under_one_condition, five); }

TEST(OnceWrongCounters, DownwardsTimesItself) {
  expect_right(downwards_times_itself, {{{"n", 7}}, {{"n", 40}}, {{"n", 0}}});
}

}  // namespace
}  // namespace loopgrad::fuzz
