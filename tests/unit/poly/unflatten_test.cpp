#include "dsl/poly/unflatten.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/verifier.h"

#include <gtest/gtest.h>
#include <loopgrad/program.h>

namespace loopgrad::poly {
namespace {

/// The body after the pass; verified.
std::string unflattened(const Program& program) {
  const ir::Program result = unflatten(program.ir());
  ir::verify(result, "unflatten");
  for (std::size_t k = 0; k < result.arrays.size(); ++k) {
    const ir::Array &before = program.ir().arrays[k], &after = result.arrays[k];
    EXPECT_EQ(before->name, after->name);
    EXPECT_EQ(ir::print(before->shape[0]), ir::print(after->callers_shape()[0])) << "callers see what they declared";
  }
  return ir::print(result.body);
}

bool changes(const Program& program) { return !unflatten(program.ir()).body.same_as(program.ir().body); }

TEST(Unflatten, RowsTimesColumns) {
  ProgramBuilder p("rows");
  auto n = p.size("n"), m = p.size("m");
  auto u = p.inout<float>("u", {n * m});
  for (auto i : p.loop("i", 1, n - 1))
    for (auto j : p.loop("j", 0, m)) u(i * m + j) += u((i - 1) * m + j) * u(j + m * i + m) * u(i * m + j - m);
  EXPECT_EQ(unflattened(p.build()),
            "for i in 1..n - 1:\n"
            "  for j in 0..m:\n"
            "    u[i, j] += u[i - 1, j]*u[i + 1, j]*u[i - 1, j]\n");
}

TEST(Unflatten, ThreeDimensionsInEitherWayOfWriting) {
  ProgramBuilder p("three");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto x = p.input<float>("x", {n * m * k});
  auto y = p.output<float>("y", {n * (m * k)});
  for (auto a : p.loop("a", 0, n))
    for (auto b : p.loop("b", 0, m))
      for (auto c : p.loop("c", 0, k)) y((a * m + b) * k + c) = x(a * m * k + b * k + (k - 1 - c));
  EXPECT_EQ(unflattened(p.build()),
            "for a in 0..n:\n"
            "  for b in 0..m:\n"
            "    for c in 0..k:\n"
            "      y[a, b, c] = x[a, b, k - 1 - c]\n");
}

TEST(Unflatten, RowsAndColumnsThatBothCountDown) {
  ProgramBuilder p("turned");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n * m}), y = p.input<float>("y", {n * (m + 1)});
  auto z = p.output<float>("z", {n * m}), u = p.output<float>("u", {n * m}), v = p.output<float>("v", {n * (m + 9)});
  for (auto [i, j] : p.loop({"i", n}, {"j", m})) {
    z(i * m + j) = x((n - 1 - i) * m + (m - 1 - j));
    u(n * m - 1 - (i * m + j)) = y((n - 1 - i) * (m + 1) + (m - j));
  }
  for (auto [i, j] : p.loop({"i2", n}, {"j2", 8})) v(i * (m + 9) + 7 - j) = 1.0f;
  const std::string text = unflattened(p.build());
  EXPECT_NE(text.find("z[i, j] = x[n - 1 - i, m - 1 - j]"), std::string::npos) << text;
  EXPECT_NE(text.find("v[i2, 7 - j2] = 1"), std::string::npos) << text;
  EXPECT_NE(text.find("u[n - i - 1, m - 1 - j] = y[n - 1 - i, m - j]"), std::string::npos) << text;
}

TEST(Unflatten, ADimensionBesideOthers) {
  ProgramBuilder p("blocks");
  auto rows = p.size("rows"), b = p.size("b"), d = p.size("d");
  auto x = p.input<float>("x", {rows * b, d});
  auto y = p.output<float>("y", {d, rows * b});
  for (auto t : p.loop("t", 0, rows * b)) y(0, t) = 0.0f;
  for (auto r : p.loop("r", 0, rows))
    for (auto i : p.loop("i", 0, b))
      for (auto c : p.loop("c", 0, d)) y(c, r * b + i) = x(r * b + i, d - 1 - c);
  const ir::Program result = unflatten(p.build().ir());
  ir::verify(result, "unflatten");
  EXPECT_EQ(ir::print(result.body),
            "for t in 0..rows:\n"
            "  for t_1 in 0..b:\n"
            "    y[0, t, t_1] = 0\n"
            "for r in 0..rows:\n"
            "  for i in 0..b:\n"
            "    for c in 0..d:\n"
            "      y[c, r, i] = x[r, i, d - 1 - c]\n");
}

TEST(Unflatten, LoopsOverAllElementsBecomeNests) {
  ProgramBuilder p("all");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n * m});
  auto y = p.output<float>("y", {n * m});
  auto z = p.output<float>("z", {n});
  for (auto t : p.loop("t", 0, n * m)) y(t) = 2.0f * x(t);
  for (auto i : p.loop("i", 0, n)) {
    z(i) = 0.0f;
    for (auto j : p.loop("j", 0, m)) z(i) += y(i * m + j) * x(i * m + j);
  }
  EXPECT_EQ(unflattened(p.build()),
            "for t in 0..n:\n"
            "  for t_1 in 0..m:\n"
            "    y[t, t_1] = 2*x[t, t_1]\n"
            "for i in 0..n:\n"
            "  z[i] = 0\n"
            "  for j in 0..m:\n"
            "    z[i] += y[i, j]*x[i, j]\n");
}

TEST(Unflatten, PositionsThatHaveAName) {
  ProgramBuilder p("named");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n * m});
  auto y = p.output<float>("y", {n * m}), z = p.output<float>("z", {n * m});
  for (auto t : p.loop("t", 0, n * m)) {
    auto at = p.scalar<std::int64_t>("at");
    at = t;
    y(at) = x(at);
    z(t) = x(t);
  }
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      auto at = p.scalar<std::int64_t>("at");
      at = i * m + j;
      y(at) += x(at) * z(i * m + j);
    }
  const std::string text = unflattened(p.build());
  EXPECT_NE(text.find("y[t, t_1] = x[t, t_1]"), std::string::npos) << text;
  EXPECT_NE(text.find("y[i, j] += x[i, j]*z[i, j]"), std::string::npos) << text;
}

TEST(Unflatten, RowsWithABorder) {
  ProgramBuilder p("border");
  auto n = p.size("n"), m = p.size("m");
  auto u = p.inout<double>("u", {(n + 2) * (m + 2)});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) u((i + 1) * (m + 2) + j + 1) = u(i * (m + 2) + j + 1) + u((i + 1) * (m + 2) + j);
  EXPECT_EQ(unflattened(p.build()),
            "for i in 0..n:\n"
            "  for j in 0..m:\n"
            "    u[i + 1, j + 1] = u[i, j + 1] + u[i + 1, j]\n");
}

TEST(Unflatten, ComponentsOfRecords) {
  ProgramBuilder p("records");
  auto n = p.size("n"), m = p.size("m");
  auto u = p.inout<float>("u", {n * m * 3});
  for (auto e : p.loop("e", 0, n))
    for (auto i : p.loop("i", 0, m))
      for (auto c : p.loop("c", 0, 2)) u((e * m + i) * 3 + c) = u((e * m + i) * 3 + 2);
  EXPECT_EQ(unflattened(p.build()),
            "for e in 0..n:\n"
            "  for i in 0..m:\n"
            "    for c in 0..2:\n"
            "      u[e, i, c] = u[e, i, 2]\n");
}

TEST(Unflatten, PlanesThatNumbersChoose) {
  ProgramBuilder p("planes");
  auto n = p.size("n"), m = p.size("m");
  auto u = p.inout<float>("u", {19 * n * m}), v = p.inout<float>("v", {2 * n});
  for (auto i : p.loop("i", 0, n)) {
    for (auto j : p.loop("j", 0, m)) u(3 * n * m + (i + 1) % n * m + j) = u(i * m + j) * u(n * m + i * m + j);
    v(n + i) = v(i);
  }
  EXPECT_EQ(unflattened(p.build()),
            "for i in 0..n:\n"
            "  for j in 0..m:\n"
            "    u[3, (i + 1)%n, j] = u[0, i, j]*u[1, i, j]\n"
            "  v[1, i] = v[0, i]\n");
}

TEST(Unflatten, PlanesStayTogetherWhereALoopGoesOverAll) {
  ProgramBuilder p("gates");
  auto n = p.size("n");
  auto z = p.inout<float>("z", {2 * n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, 2 * n)) z(i) *= 2.0f;
  for (auto i : p.loop("i", 0, n)) y(i) = z(i) * z(n + i);
  EXPECT_FALSE(changes(p.build()));
}

TEST(Unflatten, WhatASelectionKeepsInside) {
  ProgramBuilder p("selected");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n * m});
  auto y = p.output<float>("y", {n * m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) y(i * m + j) = select(j > 0, x(i * m + j - 1), 0.0f);
  EXPECT_EQ(unflattened(p.build()),
            "for i in 0..n:\n"
            "  for j in 0..m:\n"
            "    y[i, j] = select(j > 0, x[i, j - 1], 0)\n");
}

TEST(Unflatten, RowsThatDataChoose) {
  ProgramBuilder p("gathered");
  auto n = p.size("n"), m = p.size("m"), e = p.size("E");
  auto x = p.input<float>("x", {n * m}), y = p.output<float>("y", {e * m});
  auto row = p.input<int>("row", {e});
  for (auto k : p.loop("k", 0, e))
    for (auto j : p.loop("j", 0, m)) y(k * m + j) = x(row(k) * m + j);
  const std::string text = unflattened(p.build());
  EXPECT_NE(text.find("y[k, j] = x["), std::string::npos) << text;
  EXPECT_EQ(text.find("*m"), std::string::npos) << text;
}

TEST(Unflatten, ElementsOfAnotherRowStayPositions) {
  const auto program = [](int reach) {
    ProgramBuilder p("reach");
    auto n = p.size("n"), m = p.size("m");
    auto x = p.input<float>("x", {n * m + 2});
    auto u = p.input<float>("u", {n * m}), y = p.output<float>("y", {n * m});
    for (auto i : p.loop("i", 0, n - 1))
      for (auto j : p.loop("j", 0, m)) y(i * m + j) = u(i * m + j + reach) + x(i * m + j);
    return p.build();
  };
  const std::string inside = unflattened(program(0)), beyond = unflattened(program(1));
  EXPECT_NE(inside.find("y[i, j] = u[i, j] + x[i*m + j]"), std::string::npos) << inside;
  EXPECT_NE(beyond.find("y[i, j] = u[i*m + j + 1] + x[i*m + j]"), std::string::npos) << beyond;
}

TEST(Unflatten, TwoWaysToSeeOneArrayAreNone) {
  ProgramBuilder p("both_ways");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n * m});
  auto y = p.output<float>("y", {n * m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) y(i * m + j) = x(i * m + j) + x(j * n + i);
  const std::string text = unflattened(p.build());
  EXPECT_NE(text.find("y[i, j] = x[i*m + j] + x[j*n + i]"), std::string::npos) << text;
}

TEST(Unflatten, AliasesSortedArraysAndNumbersStay) {
  const auto program = [](bool aliases, bool sorted) {
    ProgramBuilder p("facts");
    auto n = p.size("n"), m = p.size("m");
    auto x = p.input<float>("x", {n * m}), other = p.input<float>("other", {n * m});
    auto key = p.input<int>("key", {n * m});
    auto y = p.output<float>("y", {n, m});
    if (aliases) p.may_alias(x, other);
    if (sorted) p.sorted(key);
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) y(i, j) = x(i * m + j) + cast<float>(key(i * m + j)) + other(0);
    return p.build();
  };
  EXPECT_TRUE(changes(program(false, false)));
  EXPECT_NE(unflattened(program(true, false)).find("x[i*m + j] + f32(key[i, j])"), std::string::npos);
  EXPECT_NE(unflattened(program(false, true)).find("x[i, j] + f32(key[i*m + j])"), std::string::npos);
  ProgramBuilder p("numbers");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {3 * n});
  for (auto i : p.loop("i", 0, n)) x(3 * i) = x(3 * i + 1);
  EXPECT_FALSE(changes(p.build())) << "isl understands it as it is";
}

TEST(FlatLoops, RowsAndColumnsByDivision) {
  ProgramBuilder p("heads");
  auto kv = p.size("kv"), group = p.size("group"), n = p.size("n");
  auto q = p.input<float>("q", {kv * group, n});
  auto k = p.input<float>("k", {kv, n});
  auto y = p.output<float>("y", {kv * group, n});
  for (auto h : p.loop("h", kv * group))
    for (auto i : p.loop("i", n)) y(h, i) = q(h, i) * k(h / group, i);
  EXPECT_EQ(unflattened(p.build()),
            "for h in 0..kv:\n"
            "  for h_1 in 0..group:\n"
            "    for i in 0..n:\n"
            "      y[h, h_1, i] = q[h, h_1, i]*k[h, i]\n");
}

TEST(FlatLoops, ThreeDimensionsOfOnePosition) {
  ProgramBuilder p("grid");
  auto a = p.size("a"), b = p.size("b"), c = p.size("c");
  auto x = p.input<float>("x", {a, b, c});
  auto y = p.output<float>("y", {a * b * c});
  for (auto t : p.loop("t", a * b * c)) y(t) = x(t / (b * c), t / c % b, t % c) + x(t / c / b, t % (b * c) / c, t % c);
  EXPECT_EQ(unflattened(p.build()),
            "for t in 0..a:\n"
            "  for t_1 in 0..b:\n"
            "    for t_1_1 in 0..c:\n"
            "      y[t, t_1, t_1_1] = x[t, t_1, t_1_1] + x[t, t_1, t_1_1]\n");
}

TEST(FlatLoops, FromTheLastToTheFirst) {
  ProgramBuilder p("descending");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.inout<float>("x", {n});
  for (auto t : p.loop("t", n * m, {.descending = true})) x(t / m) = 0.5f * x(t / m) + cast<float>(t % m);
  EXPECT_EQ(unflattened(p.build()),
            "for t in 0..n reversed:\n"
            "  for t_1 in 0..m reversed:\n"
            "    x[t] = 0.5*x[t] + f32(t_1)\n");
}

TEST(FlatLoops, StayWhereTheyWouldMakeAnIndexWorse) {
  ProgramBuilder p("flat");
  auto n = p.size("n"), m = p.size("m");
  auto b = p.input<float>("b", {m});
  auto x = p.inout<float>("x", {n * m});
  for (auto t : p.loop("t", n * m)) x(t) *= b(t % m);
  for (auto t : p.loop("s", 1, n * m)) x(t) += x(t - 1);  // runs over the ends of rows
  EXPECT_FALSE(changes(p.build()));
}

TEST(FlatLoops, StayWhereTheDivisorIsNoFactor) {
  ProgramBuilder p("others");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto x = p.inout<float>("x", {n + m});
  for (auto t : p.loop("t", n * m)) x(t / (k + 1)) = 1.0f;
  for (auto t : p.loop("s", m)) x(t / k) = 1.0f;
  for (auto t : p.loop("r", 1, n * m)) x(t / m) = 1.0f;
  EXPECT_FALSE(changes(p.build()));
}

}  // namespace
}  // namespace loopgrad::poly
