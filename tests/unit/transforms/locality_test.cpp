// Passes that save memory traffic: merge_copies, contract_levels, fuse_rows, unswitch.
#include "dsl/ir/rewriter.h"
#include "tests/unit/transforms/lowered.h"
#include "transforms/cpu/fuse_rows.h"
#include "transforms/cpu/unswitch.h"

namespace loopgrad::transforms {
namespace {

enum class Twist { None, CopiesARowMore, KeepsMoreThanThat };

// u' = f(u) by way of `next`, which `kept` keeps.
Program kept_steps(Twist twist) {
  const bool one_row_more = twist == Twist::CopiesARowMore;
  ProgramBuilder p("steps");
  auto n = p.size("n"), m = p.size("m"), T = p.size("T");
  auto u = p.inout<double>("u", {n, m});
  auto kept = p.output<double>("kept", {T, n, m});
  auto next = p.local<double>("next", {n, m});
  if (one_row_more)
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) next(i, j) = u(i, j);
  if (twist == Twist::KeepsMoreThanThat)
    for (auto i : p.loop("i", 0, n)) kept(0, i, 0) = u(i, 0);
  for (auto t : p.loop("t", 0, T)) {
    for (auto i : p.loop("i", 1, n - 1))
      for (auto j : p.loop("j", 0, m)) next(i, j) = 0.5 * (u(i - 1, j) + u(i + 1, j));
    for (auto i : p.loop("i", one_row_more ? 0 : 1, n - 1))
      for (auto j : p.loop("j", 0, m)) {
        u(i, j) = next(i, j);
        kept(t, n - 1 - i, j) = u(i, j);
      }
  }
  return p.build();
}

constexpr auto no_local = "local f64 next";

TEST(MergeCopies, WhatIsOnlyCopiedIsStoredWhereItGoes) {
  const Lowered l = lowered(kept_steps(Twist::None));
  EXPECT_EQ(l.text.find(no_local), std::string::npos) << l.text;
  EXPECT_NE(l.text.find("kept[t, n - 1 - i, j] = 0.5*"), std::string::npos) << l.text;
  for (const Sizes& sizes : {Sizes{{"n", 5}, {"m", 3}, {"T", 3}}, {{"n", 2}, {"m", 1}, {"T", 1}}})
    expect_same_results(l, sizes);
}

TEST(MergeCopies, ElementsThatAreNotWrittenInEachStepForbidIt) {
  const Lowered l = lowered(kept_steps(Twist::CopiesARowMore));
  EXPECT_NE(l.text.find(no_local), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 5}, {"m", 3}, {"T", 3}});
}

TEST(MergeCopies, ATargetThatIsUsedOtherwiseForbidsIt) {
  const Lowered l = lowered(kept_steps(Twist::KeepsMoreThanThat));
  EXPECT_NE(l.text.find(no_local), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 5}, {"m", 3}, {"T", 3}});
}

// v[t + 1] from v[t], of which only the last level is read.
Program levels(int reach, bool fills, bool reads_the_middle = false) {
  ProgramBuilder p("levels");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto v = p.local<double>("v", {T + reach, n});
  if (fills)
    for (auto t : p.loop("t", 0, T + reach)) v(t, 0) = 1.0;
  for (auto l : p.loop("l", 0, reach))
    for (auto i : p.loop("i", fills ? 1 : 0, n)) v(l, i) = x(i) + 0.5;
  for (auto t : p.loop("t", 0, T))
    for (auto i : p.loop("i", 1, n)) v(t + reach, i) = 0.5 * v(t, i - 1) + v(t + reach - 1, i);
  for (auto i : p.loop("i", 1, n)) y(i) = v(T + (reach - 1), i);
  if (reads_the_middle)
    for (auto i : p.loop("i", 1, n)) y(i) += v(T / 2, i);
  return p.build();
}

TEST(ContractLevels, OnlyThoseThatAStepUsesAreKept) {
  for (const int reach : {1, 2, 3}) {
    const Lowered l = lowered(levels(reach, true));
    EXPECT_NE(l.text.find("local f64 v[" + std::to_string(reach + 1) + ", n]"), std::string::npos) << l.text;
    ASSERT_EQ(l.report.remarks.size(), 1u);
    EXPECT_NE(l.report.remarks[0].text.find("'v' keeps"), std::string::npos);
    for (const std::int64_t steps : {0, 1, 2, 7}) expect_same_results(l, {{"n", 5}, {"T", steps}});
  }
}

TEST(ContractLevels, GoingBackwards) {
  ProgramBuilder p("adjoint");
  auto n = p.size("n"), T = p.size("T");
  auto seed = p.input<double>("seed", {n});
  auto out = p.output<double>("out", {n});
  auto v = p.local<double>("v", {T + 1, n});
  for (auto t : p.loop("t", 0, T)) v(t, n - 1) = 0.25;
  for (auto i : p.loop("i", 0, n)) v(T, i) = seed(i);
  for (auto t : p.loop("backwards", 0, T)) {
    for (auto i : p.loop("i", 0, n - 1)) v(t, i) = 0.5 * v(t + 1, i + 1);
    for (auto i : p.loop("i", 0, n)) v(t, i) += 0.125 * v(t + 1, i);
  }
  for (auto i : p.loop("i", 0, n)) out(i) = v(0, i);
  Lowered l;
  l.before = p.build().ir();
  l.before.body = ir::rewrite(l.before.body, {}, [](const ir::Stmt& s) -> std::optional<ir::Stmt> {
    auto* loop = s.as<ir::For>();
    if (!loop || loop->iterator.name != "backwards") return std::nullopt;
    return ir::for_loop(loop->iterator, loop->lower, loop->upper, loop->body, ir::LoopMode::Backward);
  });
  l.after = lower(l.before, SumMode::Restructured, l.report);
  l.text = ir::print(l.after.body);
  EXPECT_NE(l.text.find("local f64 v[2, n]"), std::string::npos) << l.text;
  for (const std::int64_t steps : {0, 1, 2, 5}) expect_same_results(l, {{"n", 4}, {"T", steps}});
}

TEST(ContractLevels, ALevelThatIsReadLaterKeepsThemAll) {
  const Lowered l = lowered(levels(1, true, true));
  EXPECT_NE(l.text.find("local f64 v[T + 1, n]"), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 5}, {"T", 4}});
}

TEST(ContractLevels, LoopsThatMayRunAtOnceKeepTheirLevels) {
  ProgramBuilder p("batches");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<double>("x", {T, n});
  auto y = p.output<double>("y", {T});
  auto v = p.local<double>("v", {T, n});
  for (auto t : p.loop("t", 0, T)) {
    for (auto i : p.loop("i", 0, n)) v(t, i) = 2.0 * x(t, i);
    y(t) = 0.0;
    for (auto i : p.loop("i", 0, n)) y(t) += v(t, n - 1 - i);
  }
  const Lowered l = lowered(p.build());
  EXPECT_EQ(outer_parallel_loops(l.after.body), std::vector<std::string>{"t"}) << l.text;
  EXPECT_NE(l.text.find("v[T, n]"), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 3}, {"T", 4}});
}

Lowered fused(const Program& program) {
  Lowered l = lowered(program);
  l.after = fuse_rows(l.after);
  ir::verify(l.after, "fuse_rows");
  l.text = ir::print(l.after.body);
  return l;
}

// v = f(u), then u = g(v), in place, with offsets in rows.
Program in_place(int up, int down, int reads = 0) {
  ProgramBuilder p("in_place");
  auto n = p.size("n"), m = p.size("m"), T = p.size("T");
  auto u = p.inout<double>("u", {n, m}), v = p.inout<double>("v", {n, m});
  for ([[maybe_unused]] auto t : p.loop("t", 0, T)) {
    for (auto i : p.loop("i", up, n - down))
      for (auto j : p.loop("j", 0, m)) v(i, j) = u(i - up, j) + 0.5 * u(i + down, j);
    for (auto i : p.loop("i", reads, n - reads))
      for (auto j : p.loop("j", 0, m)) u(i, j) = 0.9 * v(i - reads, j) + 0.1 * v(i + reads, j);
  }
  return p.build();
}

TEST(FuseRows, NestsFollowEachOtherRowByRowAtAnyReach) {
  for (const int up : {0, 1, 3})
    for (const int down : {0, 1, 2})
      for (const int reads : {0, 1}) {
        const Lowered l = fused(in_place(up, down, reads));
        EXPECT_NE(l.text.find("strip"), std::string::npos) << l.text;
        for (const std::int64_t n : {2, 3, 7, 9, 40, 131}) expect_same_results(l, {{"n", n + 5}, {"m", 3}, {"T", 2}});
      }
}

TEST(FuseRows, RowsThatReachTooFarStayApart) {
  const Lowered l = fused(in_place(0, 9));
  EXPECT_EQ(l.text.find("strip"), std::string::npos) << l.text;
}

TEST(FuseRows, SeveralNestsAndConditionsOfSizes) {
  ProgramBuilder p("chain");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<double>("a", {n, m}), b = p.inout<double>("b", {n, m}), c = p.inout<double>("c", {n, m});
  for (auto i : p.loop("i", 1, n))
    for (auto j : p.loop("j", 0, m)) b(i, j) = a(i - 1, j) + a(i, j);
  p.when(m > 2, [&] {
    for (auto i : p.loop("i", 0, n - 1))
      for (auto j : p.loop("j", 0, m)) c(i, j) = 2.0 * b(i + 1, j);
  });
  for (auto i : p.loop("i", 1, n - 2))
    for (auto j : p.loop("j", 0, m)) a(i, j) = c(i - 1, j) + c(i + 1, j);
  const Lowered l = fused(p.build());
  EXPECT_NE(l.text.find("strip"), std::string::npos) << l.text;
  for (const std::int64_t m_size : {1, 4})
    for (const std::int64_t rows : {1, 2, 3, 5, 50, 200}) expect_same_results(l, {{"n", rows}, {"m", m_size}});
}

// A step inside a border that stays as it is, whose rows and columns have loops of their own.
Program with_border(bool rows_first, bool corner_is_read) {
  ProgramBuilder p("border");
  auto n = p.size("n"), m = p.size("m"), T = p.size("T");
  auto u = p.inout<double>("u", {T + 1, n, m});
  for (auto t : p.loop("t", 0, T)) {
    auto rows = [&] {
      for (auto j : p.loop("j", 1, m - 1)) {
        u(t + 1, 0, j) = u(t, 0, j);
        u(t + 1, n - 1, j) = corner_is_read ? u(t, n - 1, j) + u(t + 1, n - 1, 0) : u(t, n - 1, j);
      }
    };
    if (rows_first) rows();
    for (auto i : p.loop("i", 0, n)) {
      u(t + 1, i, 0) = u(t, i, 0);
      u(t + 1, i, m - 1) = u(t, i, m - 1);
    }
    if (!rows_first) rows();
    for (auto i : p.loop("i", 1, n - 1))
      for (auto j : p.loop("j", 1, m - 1)) u(t + 1, i, j) = u(t, i - 1, j) + u(t, i, j + 1) - u(t, i + 1, j - 1);
  }
  return p.build();
}

TEST(FuseRows, ColumnsOfABorderJoinTheRowsInsideIt) {
  for (const bool corner_is_read : {false, true})
    for (const bool rows_first : {false, !corner_is_read}) {
      const Lowered l = fused(with_border(rows_first, corner_is_read));
      // One loop over strips does the columns and the inside, and the loop over the first and last row does not part
      // them: it comes before, or after where it reads what they set.
      const std::size_t strip = l.text.find("parallel for strip"),
                        row = l.text.find("parallel for j in 1..m - 1:\n    u");
      ASSERT_NE(strip, std::string::npos) << l.text;
      EXPECT_EQ(l.text.find("parallel for strip", strip + 1), std::string::npos) << l.text;
      EXPECT_EQ(l.text.find("parallel for i"), std::string::npos) << l.text;
      EXPECT_EQ(row > strip, corner_is_read) << l.text;
      for (const std::int64_t n : {2, 3, 5, 131})
        for (const std::int64_t m : {2, 4}) expect_same_results(l, {{"n", n}, {"m", m}, {"T", 2}});
    }
}

TEST(FuseRows, ALoopThatDependsOnBothSidesKeepsThemApart) {
  ProgramBuilder p("between");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<double>("a", {n, m}), b = p.inout<double>("b", {n, m});
  auto first = p.inout<double>("first", {m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) a(i, j) = 2.0 * b(i, j);
  for (auto j : p.loop("j", 0, m)) first(j) = a(0, m - 1 - j);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) b(i, j) = a(i, j) + first(m - 1 - j);
  const Lowered l = fused(p.build());
  EXPECT_EQ(l.text.find("strip"), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 3}, {"m", 4}});
}

TEST(FuseRows, LevelsAreNoRows) {
  ProgramBuilder p("levels");
  auto n = p.size("n"), m = p.size("m"), T = p.size("T");
  auto u = p.inout<double>("u", {T + 1, n, m});
  for (auto t : p.loop("t", 0, T))
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) u(t, i, j) = 1.0 + u(t, i, j);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) u(T, i, j) = 2.0 * u(T, i, j);
  EXPECT_EQ(fused(p.build()).text.find("strip"), std::string::npos);
}

TEST(FuseRows, NestsThatShareNothingStayApart) {
  ProgramBuilder p("apart");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<double>("a", {n, m}), b = p.inout<double>("b", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) a(i, j) = 2.0 * a(i, j);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) b(i, j) = 3.0 * b(i, j);
  EXPECT_EQ(fused(p.build()).text.find("strip"), std::string::npos);
}

TEST(FuseRows, RowsThatSumUpStayApart) {
  ProgramBuilder p("products");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {n, m, m});
  auto b = p.output<double>("b", {n, m}), c = p.output<double>("c", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      b(i, j) = 0.0;
      for (auto k : p.loop("k", 0, m)) b(i, j) += a(i, j, k);
    }
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) c(i, j) = b(i, m - 1 - j);
  EXPECT_EQ(fused(p.build()).text.find("strip"), std::string::npos);
}

TEST(Unswitch, AChoiceOfTheLoopOutsideIsMadeThere) {
  ProgramBuilder p("choice");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<double>("x", {n}), y = p.input<double>("y", {T, n});
  auto z = p.output<double>("z", {T, n});
  for (auto t : p.loop("t", 0, T))
    for (auto i : p.loop("i", 0, n)) z(t, i) = select(t == 0, x(i), y(t - 1, i));
  Lowered l = lowered(p.build());
  l.after = unswitch(l.after);
  l.text = ir::print(l.after.body);
  EXPECT_EQ(l.text.find("select"), std::string::npos) << l.text;
  EXPECT_NE(l.text.find("if t == 0"), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 4}, {"T", 3}});
}

}  // namespace
}  // namespace loopgrad::transforms
