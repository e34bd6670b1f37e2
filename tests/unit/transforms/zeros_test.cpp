// Passes about zeros that sums start from: unread_stores, assign_first_sums, zero_fills, merge_updates.
#include "tests/unit/transforms/lowered.h"
#include "transforms/sums/merge_updates.h"

namespace loopgrad::transforms {
namespace {

LoweredProgram expect_same_at(const Program& program, std::initializer_list<Sizes> all) {
  LoweredProgram l = lowered(program);
  for (const Sizes& sizes : all) expect_same_results(l, sizes);
  return l;
}

TEST(Zeros, ASumThatIsAllThereIsBecomesAnAssignment) {
  ProgramBuilder p("scaled");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = 0.0f;
  for (auto i : p.loop("i", 0, n)) y(i) += 2.0f * x(i);
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 5}}, {{"n", 0}}});
  EXPECT_EQ(l.text, "parallel for i in 0..n:\n  y[i] = 2*x[i]\n");
}

TEST(Zeros, ALongSumStartsWhereItBegins) {
  ProgramBuilder p("matvec");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto x = p.input<float>("x", {m});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = 0.0f;
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) y(i) += a(i, j) * x(j);
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 5}, {"m", 3}}, {{"n", 2}, {"m", 0}}});
  EXPECT_EQ(l.text,
            "parallel for i in 0..n:\n"
            "  y[i] = 0\n"
            "  for j in 0..m:\n"
            "    y[i] += a[i, j]*x[j]\n");
}

TEST(Zeros, OnlyTheBorderIsFilledWhenTheRestIsAssigned) {
  ProgramBuilder p("interior");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = 0.0f;
  for (auto i : p.loop("i", 1, n - 1)) y(i) += x(i - 1) + x(i + 1);
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 6}}, {{"n", 2}}, {{"n", 1}}, {{"n", 0}}});
  EXPECT_NE(l.text.find("y[i] = x[i - 1] + x[i + 1]"), std::string::npos) << l.text;
  EXPECT_EQ(l.text.find("for i in 0..n:"), std::string::npos) << l.text;
}

TEST(Zeros, RowsThatWouldGetALittleShorterAreFilledAsAWhole) {
  ProgramBuilder p("first_column");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n, m + 1});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m + 1)) y(i, j) = 0.0f;
  for (auto i : p.loop("i", 0, n)) y(i, 0) += x(i);
  LoweredProgram l = lowered(p.build());
  EXPECT_NE(l.text.find("for j in 0..m + 1:"), std::string::npos) << l.text;
  EXPECT_NE(l.text.find("y[i, 0] = x[i]"), std::string::npos) << l.text;
  for (const std::int64_t m_value : {0, 1, 5}) expect_same_results(l, {{"n", 3}, {"m", m_value}});
}

TEST(Zeros, ASecondSumIntoTheSameElementsStaysASum) {
  ProgramBuilder p("twice");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = 0.0f;
  for (auto i : p.loop("i", 0, n)) y(i) += x(i);
  for (auto i : p.loop("i", 0, n)) y(i) += 3.0f * x(n - 1 - i);
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 7}}});
  EXPECT_NE(l.text.find("y[i] = x[i]"), std::string::npos) << l.text;
  EXPECT_NE(l.text.find("y[i] += 3*"), std::string::npos) << l.text;
}

TEST(Zeros, WhatIsLeftOfFillsOfThreeIsOfTheRightLength) {
  ProgramBuilder p("by_threes");
  auto n = p.size("n"), m = p.size("m"), edges = p.size("E");
  auto w = p.input<float>("w", {n, m});
  auto x = p.input<float>("x", {edges});
  auto y = p.output<float>("y", {edges});
  for (auto i : p.loop("i", 0, edges / 3))
    for (int k = 0; k < 3; ++k) y(3 * i + k) = 0.0f;
  for (auto i : p.loop("rest", 3 * (edges / 3), edges)) y(i) = 0.0f;
  for (auto i : p.loop("j", 1, edges - 1)) y(i) += x(i + 1) * x(i + 1);
  for (auto i : p.loop("k", 0, edges)) y(i) += x(i);
  p.when(n > 1 && m > 1, [&] { y(0) += w(1, 1); });
  const Program program = p.build();
  for (const std::int64_t e : {1, 2, 6, 7, 8})
    for (const std::int64_t n_value : {2, 3, 4}) expect_same_at(program, {{{"n", n_value}, {"m", 2}, {"E", e}}});
}

TEST(Zeros, WhatIsReadBeforeItIsAssignedIsFilled) {
  ProgramBuilder p("shifted");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n + 1});
  for (auto i : p.loop("i", 0, n + 1)) y(i) = 0.0f;
  for (auto i : p.loop("i", 0, n)) y(i) += x(i) + y(i + 1);  // y[i + 1] is still zero here
  expect_same_at(p.build(), {{{"n", 6}}, {{"n", 1}}, {{"n", 0}}});
}

TEST(Zeros, ASumStartsBeforeOneUnderADataCondition) {
  ProgramBuilder p("then_guarded");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = 0.0f;
  for (auto i : p.loop("i", 0, n)) y(i) += 2.0f * x(i);
  for (auto i : p.loop("i", 0, n)) p.when(x(i) > 0, [&] { y(i) += x(i); });
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 9}}, {{"n", 0}}});
  EXPECT_NE(l.text.find("y[i] = 2*x[i]"), std::string::npos) << l.text;
}

TEST(Zeros, SingleSumsStartBesideSumsThatAreCutIntoBlocks) {
  ProgramBuilder p("beside");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n, m});
  auto g = p.output<float>("g", {m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) y(i, j) = 0.0f;
  for (auto j : p.loop("j", 0, m)) g(j) = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.local<float>("s");
    s() = 0.0f;
    for (auto j : p.loop("j", 0, m)) {
      y(i, j) += 2.0f * x(i, j);
      s() += x(i, j);
      g(j) += x(i, j);
    }
    for (auto j : p.loop("j", 0, m)) y(i, j) += s();
  }
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 70}, {"m", 3}}, {{"n", 1}, {"m", 1}}, {{"n", 0}, {"m", 2}}});
  EXPECT_NE(l.text.find("g_part["), std::string::npos) << l.text;
  EXPECT_NE(l.text.find("y[i, j] = 2*x[i, j]"), std::string::npos) << l.text;
}

TEST(Zeros, ASumUnderADataConditionKeepsItsZeros) {
  ProgramBuilder p("guarded");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = 0.0f;
  for (auto i : p.loop("i", 0, n)) p.when(x(i) > 0, [&] { y(i) += x(i); });
  expect_same_at(p.build(), {{{"n", 9}}});
}

TEST(Zeros, SumsStartInRowsThatDoNotGoOnWithThem) {
  ProgramBuilder p("rows");
  auto n = p.size("n"), edges = p.size("E"), m = p.size("m");
  auto x = p.input<float>("x", {edges, m});
  auto ptr = p.input<int>("ptr", {n + 1});
  auto y = p.output<float>("y", {edges});
  p.csr(ptr, edges);
  for (auto e : p.loop("e", 0, edges)) y(e) = 0.0f;
  for (auto v : p.loop("v", 0, n))  // adds to the edges of v: different ones each time
    for (auto e : p.loop("e", ptr(v), ptr(v + 1)))
      for (auto j : p.loop("j", 0, m)) y(e) += x(e, j);
  const std::string text = lowered(p.build()).text;
  EXPECT_NE(text.find("    y[e] = 0\n    for j in 0..m:\n"), std::string::npos) << text;
}

TEST(Zeros, ASumOfOneIterationMayBeAnAssignment) {
  ProgramBuilder p("once");
  auto n = p.size("n"), steps = p.size("T");
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = 0.0f;
  for (auto t : p.loop("t", 0, steps))
    p.when(t == 1, [&] {
      for (auto i : p.loop("i", 0, n)) y(i) += 2.0f;
    });
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 5}, {"T", 3}}, {{"n", 5}, {"T", 1}}});
  EXPECT_NE(l.text.find("y[i] = 2"), std::string::npos) << l.text;
}

TEST(Zeros, SumsOverTimeStartAnewInEachStep) {
  ProgramBuilder p("steps");
  auto n = p.size("n"), steps = p.size("T");
  auto u = p.inout<float>("u", {n});
  auto flux = p.local<float>("flux", {n});
  for (auto t : p.loop("t", 0, steps)) {
    for (auto i : p.loop("i", 0, n)) flux(i) = 0.0f;
    for (auto i : p.loop("i", 1, n)) flux(i) += u(i) - u(i - 1);
    for (auto i : p.loop("i", 0, n)) u(i) += 0.1f * flux(i);
  }
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 6}, {"T", 3}}, {{"n", 1}, {"T", 2}}, {{"n", 0}, {"T", 1}}});
  EXPECT_NE(l.text.find("flux[i] = u[i] - u[i - 1]"), std::string::npos) << l.text;
}

// v[t + 1] = 2*v[t], and y sums up all v[t]; `more` comes before that in each step.
template <class F>
Program sum_over_steps(const char* name, F&& more) {
  ProgramBuilder p(name);
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  auto v = p.output<float>("v", {T + 1, n});
  for (auto i : p.loop("i", 0, n)) y(i) = 0.0f;
  for (auto i : p.loop("i", 0, n)) v(0, i) = x(i);
  for (auto t : p.loop("t", 0, T)) {
    more(p, t, n, y, v);
    for (auto i : p.loop("i", 0, n)) {
      y(i) += v(t, i) * x(i);
      v(t + 1, i) = 2.0f * v(t, i);
    }
  }
  return p.build();
}

TEST(Zeros, SumsOverAllStepsStartInTheFirst) {
  LoweredProgram l = expect_same_at(sum_over_steps("summed", [](auto&&...) {}),
                                    {{{"n", 5}, {"T", 4}}, {{"n", 5}, {"T", 1}}, {{"n", 5}, {"T", 0}}});
  EXPECT_NE(l.text.find("y[i] = select(0 < t, y[i], 0)"), std::string::npos) << l.text;
  EXPECT_NE(l.text.find("if T == 0:"), std::string::npos) << l.text;  // else nobody sees the zeros
}

/// The first element, which no step adds to, is read by its neighbour: all are filled, and no step has to choose.
TEST(Zeros, StepsDoNotChooseWhereTheFillStays) {
  ProgramBuilder p("wave");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.inout<float>("x", {n});
  auto y = p.local<float>("y", {n});
  for (auto i : p.loop("i0", 0, n)) y(i) = 0.0f;
  for (auto t : p.loop("t", 0, T)) {
    (void)t;
    for (auto i : p.loop("i", 1, n)) y(i) += x(i) - x(i - 1);
    for (auto i : p.loop("i1", 1, n)) x(i) += 0.5f * (y(i) - y(i - 1));
  }
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 5}, {"T", 4}}, {{"n", 2}, {"T", 1}}, {{"n", 3}, {"T", 0}}});
  EXPECT_EQ(l.text.find("select(0 < t"), std::string::npos) << l.text;
}

TEST(Zeros, WhatTheFirstStepReadsBeforeItSumsIsFilled) {
  const Program program = sum_over_steps("read_before", [](auto& p, auto t, auto n, auto& y, auto& v) {
    for (auto i : p.loop("i", 0, n)) v(t, i) = v(t, i) + y(i);
  });
  LoweredProgram l = expect_same_at(program, {{{"n", 5}, {"T", 4}}, {{"n", 5}, {"T", 1}}, {{"n", 5}, {"T", 0}}});
  EXPECT_EQ(l.text.find("if T == 0:"), std::string::npos) << l.text;
}

TEST(Zeros, WhatTheFirstStepAssignsGoesOn) {
  const Program program = sum_over_steps("assigned_before", [](auto& p, auto t, auto n, auto& y, auto&) {
    for (auto i : p.loop("i", 0, n)) p.when(t == 0, [&] { y(i) = 1.0f; });
  });
  LoweredProgram l = expect_same_at(program, {{{"n", 5}, {"T", 4}}, {{"n", 5}, {"T", 0}}});
  EXPECT_EQ(l.text.find("select"), std::string::npos) << l.text;
}

TEST(Zeros, SumsInLoopsThatAreNotStepsStayOutside) {
  ProgramBuilder p("columns");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {m, n});
  auto y = p.output<float>("y", {n});
  for (auto j : p.loop("j", 0, n)) y(j) = 0.0f;
  for (auto i : p.loop("i", 0, m))
    for (auto j : p.loop("j", 0, n)) y(j) += a(i, j);
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 5}, {"m", 4}}, {{"n", 5}, {"m", 0}}});
  EXPECT_EQ(l.text.find("select"), std::string::npos) << l.text;
}

TEST(Zeros, ElementsThatNobodyReadsAreNotStored) {
  ProgramBuilder p("border");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  auto wide = p.local<float>("wide", {n + 2});
  for (auto i : p.loop("i", 0, n + 2)) wide(i) = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    wide(i) += x(i);
    wide(i + 2) += 2.0f * x(i);
  }
  for (auto i : p.loop("i", 0, n)) y(i) = wide(i + 1);
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 6}}, {{"n", 2}}, {{"n", 1}}, {{"n", 0}}});
  EXPECT_EQ(l.text.find("..n + 2"), std::string::npos) << l.text;
  EXPECT_NE(l.text.find("in 1..n + 1"), std::string::npos) << l.text;
}

TEST(Zeros, ElementsThatASumThroughAnIndexMayMeetStay) {
  ProgramBuilder p("bins");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, n);
  auto y = p.output<float>("y", {1});
  auto bins = p.local<float>("bins", {n});
  for (auto i : p.loop("i", 0, n)) bins(i) = 0.0f;
  for (auto i : p.loop("i", 0, n)) bins(idx(i)) += x(i);
  y(0) = bins(0);
  expect_same_at(p.build(), {{{"n", 6}}, {{"n", 1}}});
}

TEST(Zeros, PartialResultsAreCombinedIntoElementsThatHoldSomething) {
  ProgramBuilder p("columns");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {1});
  auto total = p.local<float>("total", {m + 1});
  for (auto j : p.loop("j", 0, m + 1)) total(j) = 1.0f;
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) total(j) += x(i, j);
  y(0) = total(1);
  expect_same_at(p.build(), {{{"n", 70}, {"m", 2}}, {{"n", 1}, {"m", 3}}, {{"n", 0}, {"m", 1}}});
}

TEST(Zeros, AZeroBesideACopyGoesWhenTheElementIsAssignedNext) {
  ProgramBuilder p("moved");
  auto n = p.size("n"), steps = p.size("T");
  auto u = p.inout<float>("u", {n});
  auto old = p.local<float>("old", {n});
  for ([[maybe_unused]] auto t : p.loop("t", 0, steps)) {
    for (auto i : p.loop("i", 0, n)) {
      old(i) = u(i);
      u(i) = 0.0f;
    }
    for (auto i : p.loop("i", 0, n)) u(i) += 0.5f * old(n - 1 - i);
  }
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 6}, {"T", 3}}, {{"n", 1}, {"T", 1}}, {{"n", 0}, {"T", 2}}});
  EXPECT_EQ(l.text.find("u[i] = 0\n"), std::string::npos) << l.text;
}

TEST(Zeros, AZeroThatItsOwnLoopReadsStays) {
  ProgramBuilder p("read");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto u = p.inout<float>("u", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    u(i) = 0.0f;
    y(i) = u(max(i - 1, 0)) + x(i);
  }
  for (auto i : p.loop("i", 0, n)) u(i) += x(i);
  expect_same_at(p.build(), {{{"n", 6}}, {{"n", 1}}});
}

TEST(Zeros, WhatIsClearedForTheNextStepGoesWhenThatAssignsIt) {
  ProgramBuilder p("cleared");
  auto n = p.size("n"), steps = p.size("T");
  auto u = p.inout<float>("u", {n});
  auto flux = p.local<float>("flux", {n});
  for (auto i : p.loop("i", 0, n)) flux(i) = 0.0f;
  for ([[maybe_unused]] auto t : p.loop("t", 0, steps)) {
    for (auto i : p.loop("i", 0, n)) flux(i) += 0.5f * u(i);
    for (auto i : p.loop("i", 1, n)) u(i) += flux(i - 1);
    for (auto i : p.loop("i", 0, n)) flux(i) = 0.0f;
  }
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 6}, {"T", 3}}, {{"n", 1}, {"T", 1}}, {{"n", 0}, {"T", 2}}});
  EXPECT_EQ(l.text.find("= 0\n"), std::string::npos) << l.text;
}

TEST(Zeros, LocalsThatNobodyReadsGo) {
  ProgramBuilder p("unread");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  auto unread = p.local<float>("unread", {n});
  auto cleared = p.local<float>("cleared", {n});
  for (auto i : p.loop("i", 0, n)) {
    unread(i) = x(i);
    cleared(i) = 2.0f * x(i);
    y(i) = cleared(i);
    cleared(i) = 0.0f;
  }
  LoweredProgram l = expect_same_at(p.build(), {{{"n", 4}}});
  EXPECT_EQ(l.text.find("unread"), std::string::npos) << l.text;
  EXPECT_EQ(l.text.find("cleared[i] = 0"), std::string::npos) << l.text;
}

TEST(Zeros, ClearedForTheNextStepIsNotUnread) {
  ProgramBuilder p("cleared");
  auto n = p.size("n"), steps = p.size("T");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  auto sum = p.local<float>("sum", {n});
  for (auto i : p.loop("i", 0, n)) sum(i) = 0.0f;
  for (auto t : p.loop("t", 0, steps)) {
    for (auto i : p.loop("i", 0, n)) sum(i) += x(i);
    for (auto i : p.loop("i", 0, n)) y(i) = sum(i);
    for (auto i : p.loop("i", 0, n)) sum(i) = 0.0f;
  }
  expect_same_at(p.build(), {{{"n", 4}, {"T", 3}}});
}

TEST(Zeros, ArraysThatMayAliasKeepTheirZeros) {
  ProgramBuilder p("aliased");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  auto y = p.inout<float>("y", {n});
  p.may_alias(x, y);
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    y(i) += x(i);
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_NE(l.text.find("y[i] = 0"), std::string::npos) << l.text;
}

TEST(MergeUpdates, KeepsTheOrderOfOperations) {
  ProgramBuilder p("updates");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.inout<float>("y", {n});
  auto z = p.output<float>("z", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) += x(i);
    y(i) *= x(i) + 1;
    z(i) = x(i);
    z(i) += 2.0f * x(i);
    z(i) += z(i);  // reads itself: stays
  }
  Program program = p.build();
  LoweredProgram merged{program.ir(), merge_updates(program.ir(), Updates::All), {}, {}};
  EXPECT_EQ(ir::print(merged.after.body),
            "for i in 0..n:\n"
            "  y[i] = (y[i] + x[i])*(x[i] + 1)\n"
            "  z[i] = fma(2, x[i], x[i])\n"
            "  z[i] += z[i]\n");
  expect_same_results(merged, {{"n", 5}});
}

}  // namespace
}  // namespace loopgrad::transforms
