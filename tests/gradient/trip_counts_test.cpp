// Tapes of loops whose trips the program itself decides, by integers: they are counted before a run.
#include "tests/gradient/jacobian.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/error.h>
#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace loopgrad {
namespace {

using test::gradient_is_right;
using test::Inputs;

std::string forward_text(const Program& program) { return differentiate(program).forward.str(); }

/// Products of the entries that two sparse rows share, whose columns ascend.
Program shared_columns() {
  ProgramBuilder p("shared_columns");
  auto n = p.size("n"), entries = p.size("entries");
  auto ptr = p.input<std::int32_t>("ptr", {n + 1}), column = p.input<std::int32_t>("column", {entries});
  auto value = p.input<double>("value", {entries});
  auto y = p.output<double>("y", {n});
  p.csr(ptr, entries);
  for (auto i : p.loop("i", 1, n)) {
    auto a = p.scalar<std::int64_t>("a"), b = p.scalar<std::int64_t>("b");
    auto s = p.scalar<double>("s", 1.0);
    a = ptr(i - 1);
    b = ptr(i);
    const auto both = [&](const Value&) { return a < ptr(i) && b < ptr(i + 1); };
    for ([[maybe_unused]] auto k : p.loop_while("k", 2 * entries, both)) {
      p.when(column(a) == column(b), [&] { s = s * sin(value(a) * value(b)) + 1.0; });
      auto is_left = p.scalar<std::int64_t>("is_left"), is_right = p.scalar<std::int64_t>("is_right");
      is_left = select(column(a) <= column(b), 1, 0);
      is_right = select(column(b) <= column(a), 1, 0);
      a = a + is_left;
      b = b + is_right;
    }
    y(i) = s;
  }
  return p.build();
}

TEST(TripCounts, AWhileThatIntegersEndTakesWhatItRuns) {
  const Program program = shared_columns();
  EXPECT_NE(forward_text(program).find("most_k"), std::string::npos) << forward_text(program);
  const Inputs inputs{.sizes = {{"n", 4}, {"entries", 9}},
                      .values = {{"ptr", {0, 3, 5, 5, 9}}, {"column", {0, 2, 5, 2, 5, 0, 1, 2, 3}}},
                      .options = {}};
  EXPECT_TRUE(gradient_is_right(program, inputs));
}

TEST(TripCounts, TheCountIsOfIntegersAlone) {
  const std::string sizing = differentiate(shared_columns()).sizing.str();
  EXPECT_NE(sizing.find("most_k max= k + 1"), std::string::npos) << sizing;
  EXPECT_NE(sizing.find("column["), std::string::npos) << sizing;
  EXPECT_EQ(sizing.find("sin("), std::string::npos) << sizing;
  EXPECT_EQ(sizing.find("value["), std::string::npos) << sizing;
}

TEST(TripCounts, AListThatIsFollowed) {
  ProgramBuilder p("followed");
  auto n = p.size("n"), m = p.size("m");
  auto first = p.input<std::int32_t>("first", {n}), next = p.input<std::int32_t>("next", {m});
  auto w = p.input<double>("w", {m});
  auto y = p.output<double>("y", {n});
  p.in_range(next, -1, m);
  for (auto i : p.loop("i", 0, n)) {
    auto k = p.scalar<std::int64_t>("k");
    auto v = p.scalar<double>("v", 0.5);
    k = first(i);
    for ([[maybe_unused]] auto it : p.loop_while("it", m, [&](const Value&) { return k >= 0; })) {
      v = sin(v) * w(k);
      k = next(k);
    }
    y(i) = v;
  }
  const Program program = p.build();
  EXPECT_NE(forward_text(program).find("most_it"), std::string::npos) << forward_text(program);
  const Inputs inputs{.sizes = {{"n", 4}, {"m", 6}},
                      .values = {{"first", {2, 0, -1, 5}}, {"next", {1, -1, 0, 4, -1, 3}}},
                      .options = {}};
  EXPECT_TRUE(gradient_is_right(program, inputs));
}

TEST(TripCounts, BoundsThatTheProgramComputes) {
  ProgramBuilder p("computed");
  auto n = p.size("n"), m = p.size("m");
  auto key = p.input<std::int32_t>("key", {m});
  auto x = p.input<double>("x", {m});
  auto y = p.output<double>("y", {n});
  auto count = p.output<std::int32_t>("count", {n});
  for (auto i : p.loop("i", 0, n)) {
    count(i) = 0;
    for (auto j : p.loop("j", 0, m)) p.when(key(j) == i, [&] { count(i) += 1; });
  }
  for (auto i : p.loop("i", 0, n)) {
    auto v = p.scalar<double>("v", 1.0);
    for (auto r : p.loop("r", 0, count(i))) v = sin(v) * x(r) + 0.5;
    y(i) = v;
  }
  const Program program = p.build();
  EXPECT_NE(forward_text(program).find("most_r"), std::string::npos) << forward_text(program);
  const std::string sizing = differentiate(program).sizing.str();
  EXPECT_NE(sizing.find("local i32 count[n]"), std::string::npos) << sizing;
  EXPECT_NE(sizing.find("most_r max= "), std::string::npos) << sizing;
}

TEST(TripCounts, BoundsInScalarsOfTheLoop) {
  ProgramBuilder p("own_bounds");
  auto n = p.size("n"), m = p.size("m");
  auto key = p.input<std::int32_t>("key", {n});
  auto x = p.input<double>("x", {m});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto count = p.scalar<std::int64_t>("count");
    auto v = p.scalar<double>("v", 1.0);
    count = 0;
    p.when(key(i) > 0, [&] { count = key(i); }).otherwise([&] { count = 1; });
    for (auto r : p.loop("r", 0, count)) v = sin(v) * x(r) + 0.5;
    y(i) = v;
  }
  const Program program = p.build();
  EXPECT_NE(forward_text(program).find("most_r"), std::string::npos) << forward_text(program);
  EXPECT_TRUE(
      gradient_is_right(program, {.sizes = {{"n", 4}, {"m", 5}}, .values = {{"key", {2, 0, -3, 5}}}, .options = {}}));
}

TEST(TripCounts, AWhileWithinAWhile) {
  ProgramBuilder p("within");
  auto n = p.size("n");
  auto step = p.input<std::int32_t>("step", {n});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  p.in_range(step, 1, n + 1);
  for (auto i : p.loop("i", 0, n)) {
    auto at = p.scalar<std::int64_t>("at");
    auto v = p.scalar<double>("v", 1.0);
    at = i;
    for ([[maybe_unused]] auto k : p.loop_while("k", n, [&](const Value&) { return at < n; })) {
      auto left = p.scalar<std::int64_t>("left");
      left = step(at);
      for ([[maybe_unused]] auto l : p.loop_while("l", n, [&](const Value&) { return left > 0; })) {
        v = sin(v) + x(at);
        left = left / 2;
      }
      at = at + step(at);
    }
    y(i) = v;
  }
  const Program program = p.build();
  const std::string text = forward_text(program);
  EXPECT_NE(text.find("most_k, most_l"), std::string::npos) << text;
  const Inputs inputs{.sizes = {{"n", 5}}, .values = {{"step", {1, 3, 1, 5, 2}}}, .options = {}};
  EXPECT_TRUE(gradient_is_right(program, inputs));
}

TEST(TripCounts, WhatFloatsDecideKeepsItsBound) {
  ProgramBuilder p("newton");
  auto n = p.size("n"), most = p.size("most");
  auto a = p.input<double>("a", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto r = p.scalar<double>("r");
    r = 1.0 + a(i);
    for ([[maybe_unused]] auto k : p.loop_while("k", most, [&](const Value&) { return abs(r * r - a(i)) > 1e-3; }))
      r = 0.5 * (r + a(i) / r);
    y(i) = r;
  }
  const Program program = p.build();
  EXPECT_NE(forward_text(program).find("[n, most]"), std::string::npos) << forward_text(program);
  EXPECT_TRUE(gradient_is_right(program, {.sizes = {{"n", 3}, {"most", 20}}, .values = {}, .options = {}}));
}

TEST(TripCounts, WhatNeedsNoTapeIsNotCounted) {
  ProgramBuilder p("searched");
  auto n = p.size("n"), m = p.size("m");
  auto key = p.input<double>("key", {m});
  auto x = p.input<double>("x", {n});
  auto table = p.input<double>("table", {m});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto k = p.scalar<std::int64_t>("k", 0);
    for ([[maybe_unused]] auto it :
         p.loop_while("it", m, [&](const Value&) { return k + 1 < m && key(k + 1) <= x(i); }))
      k = k + 1;
    y(i) = table(k) * x(i);
  }
  const Gradient gradient = differentiate(p.build());
  EXPECT_TRUE(gradient.sizing.ir().arrays.empty()) << gradient.sizing.str();
}

}  // namespace
}  // namespace loopgrad
