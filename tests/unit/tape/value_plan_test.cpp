// What is saved and what is computed again, of all values together.
#include "dsl/ir/program.h"
#include "tests/error/expect_error.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/error.h>
#include <loopgrad/program.h>

#include <gtest/gtest.h>

namespace loopgrad {
namespace {

using Names = std::set<std::string>;

/// The arrays that the backward sweep gets from the forward one.
Names saved(const Program& program, const GradientOptions& options = {}) {
  Names names;
  const Gradient gradient = differentiate(program, options);
  for (const ir::Array& array : gradient.forward.ir().arrays)
    if (array->role == ir::ArrayRole::Tape) names.insert(array->name);
  return names;
}

TEST(ValuePlan, WhatFollowsFromASavedValueIsComputedAgain) {
  ProgramBuilder p("chain");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto a = p.scalar<float>("a"), b = p.scalar<float>("b");
    a = sin(x(i));
    b = a * x(i);
    x(i) = a * b * b;
  }
  EXPECT_EQ(saved(p.build()), Names{"x_initial"});
}

TEST(ValuePlan, SavesWhereTheProgramIsNarrow) {
  ProgramBuilder p("narrow");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n, 4});
  for (auto i : p.loop("i", 0, n)) {
    auto mean = p.scalar<float>("mean"), root = p.scalar<float>("root");
    mean = 0.25f * (x(i, 0) + x(i, 1) + x(i, 2) + x(i, 3));
    root = sqrt(mean);
    for (int k = 0; k < 4; ++k) x(i, k) = sin(root) * cos(mean);
  }
  EXPECT_EQ(saved(p.build()), Names{"mean_kept"}) << "one value stands for four";
}

TEST(ValuePlan, AScalarOfBothBranchesIsComputedAgain) {
  ProgramBuilder p("branches");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n}), z = p.input<float>("z", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto w = p.scalar<float>("w");
    p.when(x(i) < 0.5f, [&] { w = exp(x(i)); }).otherwise([&] { w = x(i) * x(i); });
    y(i) = w * w * z(i);
  }
  EXPECT_EQ(saved(p.build()), Names{});
}

TEST(ValuePlan, AScalarThatIsOverwrittenHasSeveralValues) {
  ProgramBuilder p("flagged");
  auto n = p.size("n");
  auto f = p.inout<float>("f", {n, 3});
  auto flags = p.input<int>("flags", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto density = p.scalar<float>("density"), speed = p.scalar<float>("speed");
    density = f(i, 0) + f(i, 1) + f(i, 2);
    speed = (f(i, 0) - f(i, 1)) / density;
    p.when(flags(i) == 2, [&] { speed = 0.005f; });
    f(i, 0) = density * speed * speed;
    f(i, 1) = density * sin(speed);
  }
  const Program program = p.build();
  EXPECT_EQ(saved(program), (Names{"density_kept", "speed_kept"}))
      << "the second speed follows from the first" << differentiate(program).backward.str();
}

TEST(ValuePlan, ShortLoopsRunAgainAndLongOnesDoNot) {
  const auto program = [](bool is_short) {
    ProgramBuilder p("dots");
    auto n = p.size("n"), m = p.size("m");
    auto a = p.input<float>("a", {n, 4}), b = p.input<float>("b", {n, m});
    auto y = p.output<float>("y", {n});
    for (auto i : p.loop("i", 0, n)) {
      auto s = p.scalar<float>("s");
      s = 1.0f;
      if (is_short)
        for (auto k : p.loop("k", 0, 4)) s += a(i, k) * a(i, k);
      else
        for (auto k : p.loop("k", 0, m)) s += b(i, k) * b(i, k);
      y(i) = sin(s);
    }
    return p.build();
  };
  EXPECT_EQ(saved(program(true)), Names{});
  EXPECT_EQ(saved(program(false)), Names{"s_kept"});
}

TEST(ValuePlan, SmallLocalArraysAreComputedAgain) {
  ProgramBuilder p("cell");
  auto n = p.size("n");
  auto at = p.input<float>("at", {n, 3}), grid = p.input<float>("grid", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto offset = p.local<float>("offset", {3});
    for (auto k : p.loop("k", 0, 3)) offset(k) = at(i, k) - floor(at(i, k));
    y(i) = offset(0) * offset(1) * offset(2) * grid(i);
  }
  EXPECT_EQ(saved(p.build(), {.wrt = {"at", "grid"}}), Names{});
}

/// A sum's terms may be added in another order: then the other branch might be taken.
TEST(ValuePlan, SumsThatDecideAreNotComputedAgain) {
  const auto program = [](bool decides) {
    ProgramBuilder p("decision");
    auto n = p.size("n");
    auto a = p.inout<float>("a", {n, 3});
    for (auto i : p.loop("i", 0, n)) {
      auto s = p.scalar<float>("s"), t = p.scalar<float>("t");
      s = 0.0f;
      for (auto k : p.loop("k", 0, 3)) s += a(i, k);
      t = 2.0f * s;
      if (decides) {
        p.when(t > 1.0f, [&] { a(i, 0) = a(i, 0) * t; });
      } else {
        a(i, 0) = a(i, 0) * t;
      }
    }
    return p.build();
  };
  const Names with = saved(program(true)), without = saved(program(false));
  EXPECT_TRUE(with.contains("s_kept") || with.contains("t_kept") || with.contains("branch_tape"));
  EXPECT_TRUE(with.contains("s_kept") || with.contains("t_kept")) << "what the branch multiplies with";
  EXPECT_FALSE(without.empty());
}

/// Each value reads the one before it twice: written out, the last one would have 2^40 operations.
TEST(ValuePlan, WorkIsBoundedByTheText) {
  ProgramBuilder p("doublings");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    std::vector<Element> values;
    for (int k = 0; k < 40; ++k) {
      values.push_back(p.scalar<float>("v" + std::to_string(k)));
      values[k] = k == 0 ? x(i) * x(i) : sin(values[k - 1]) * values[k - 1];
    }
    y(i) = values.back() * values.back();
  }
  const Gradient gradient = differentiate(p.build());
  EXPECT_LT(gradient.backward.str().size(), 40000u);
}

// ---- What the program asks for ----

/// In `recomputed`, w needs 6 operations: cheaper than 8 bytes moved. In `saved`, s takes a loop over n.
Program with_choices(const std::function<void(ProgramBuilder&, Element&, Element&)>& choose) {
  ProgramBuilder p("choices");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<float>("s", 0.0f), w = p.scalar<float>("w");
    for (auto j : p.loop("j", 0, m)) s += x(i, j);
    w = exp(x(i, 0));
    y(i) = w * w * s * s;
    choose(p, s, w);
  }
  return p.build();
}

TEST(ValuePlan, IsByCostWhereNothingIsAskedFor) {
  EXPECT_EQ(saved(with_choices([](auto&, auto&, auto&) {})), Names{"s_kept"});
}

TEST(ValuePlan, SavesWhatTheProgramAsksToSave) {
  const Program program = with_choices([](auto& p, auto&, auto& w) { p.save(w); });
  EXPECT_EQ(saved(program), (Names{"s_kept", "w_kept"}));
  EXPECT_NE(program.str().find("local f32 w saved"), std::string::npos) << program.str();
}

TEST(ValuePlan, ComputesAgainWhatTheProgramAsksToComputeAgain) {
  const Program program = with_choices([](auto& p, auto& s, auto&) { p.recompute(s); });
  EXPECT_EQ(saved(program), Names{});
  EXPECT_NE(program.str().find("local f32 s recomputed"), std::string::npos) << program.str();
}

TEST(ValuePlan, GoesByWhatIsAskedOfAnArrayAndOfAName) {
  ProgramBuilder p("named");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n, 2});
  for (auto i : p.loop("i", 0, n)) {
    auto two = p.local<float>("two", {2});
    for (int k = 0; k < 2; ++k) two(k) = sin(x(i, k));
    p.save(two);
    auto v = p.let("v", two(0) * two(1));
    p.save(v);
    for (int k = 0; k < 2; ++k) x(i, k) = v * v * two(k);
  }
  EXPECT_EQ(saved(p.build()), (Names{"two_kept", "v_kept", "x_initial"}));
}

TEST(ValuePlan, RefusesToComputeAgainWhatHasOtherValues) {
  ProgramBuilder p("carried");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {});
  auto s = p.scalar<float>("s", 1.0f);
  p.recompute(s);
  for (auto i : p.loop("i", 0, n)) s = s * x(i);
  y() = s;
  const Program program = p.build();
  const ErrorInfo error = test::expect_error<DifferentiationError>(
      ErrorCode::NotDifferentiable, {"values that it has before the last one"}, [&] { differentiate(program); });
  EXPECT_EQ(error.array, "s");
}

TEST(ValuePlan, RefusesToComputeALargeArrayAgain) {
  ProgramBuilder p("large");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  auto t = p.local<float>("t", {n});
  p.recompute(t);
  for (auto i : p.loop("i", 0, n)) t(i) = sin(x(i));
  for (auto i : p.loop("i", 0, n)) x(i) = t(i) * t(i);
  const Program program = p.build();
  const ErrorInfo error = test::expect_error<DifferentiationError>(
      ErrorCode::NotDifferentiable, {"more than a few elements"}, [&] { differentiate(program); });
  EXPECT_EQ(error.array, "t");
}

TEST(ValuePlan, WhatIsAskedIsAboutLocals) {
  ProgramBuilder p("arguments");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto v = p.let("v", x(i) * x(i));
    EXPECT_THROW(p.save(x), UsageError);
    EXPECT_THROW(p.save(x(i)), UsageError);
    EXPECT_THROW(p.save(v * 2), UsageError);
    p.save(v);
    EXPECT_THROW(p.recompute(v), UsageError) << "both";
    y(i) = v * v;
  }
  p.build();
}

}  // namespace
}  // namespace loopgrad
