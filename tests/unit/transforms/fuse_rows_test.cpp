// Nests that run row by row, and what they keep of the arrays between them.
#include "transforms/locality/fuse_rows.h"
#include "tests/unit/transforms/lowered.h"

namespace loopgrad::transforms {
namespace {

LoweredProgram fused(const Program& program) { return passed(program, fuse_rows); }

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
        const LoweredProgram l = fused(in_place(up, down, reads));
        EXPECT_NE(l.text.find("strip"), std::string::npos) << l.text;
        for (const std::int64_t n : {2, 3, 7, 9, 40, 131}) expect_same_results(l, {{"n", n + 5}, {"m", 3}, {"T", 2}});
      }
}

TEST(FuseRows, RowsThatReachTooFarStayApart) {
  const LoweredProgram l = fused(in_place(0, 9));
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
  const LoweredProgram l = fused(p.build());
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
      const LoweredProgram l = fused(with_border(rows_first, corner_is_read));
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
  const LoweredProgram l = fused(p.build());
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

// Planes of one array after those of another one that it is computed from.
Program in_a_cube(int reach, bool same_bounds) {
  ProgramBuilder p("cube");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<double>("a", {n, m, m}), b = p.inout<double>("b", {n, m, m}), c = p.inout<double>("c", {n, m, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 1, m - 1))
      for (auto k : p.loop("k", 0, m)) b(i, j, k) = a(i, j - 1, k) + a(i, j + 1, k);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 1, same_bounds ? m - 1 : m))
      for (auto k : p.loop("k", 0, m)) c(i, j, k) += a(i, j, k) * b(i, j - reach, m - 1 - k);
  return p.build();
}

TEST(FuseRows, RowsWithinRowsAreDoneTogetherWhereNothingCrossesThem) {
  for (const int reach : {0, 1})
    for (const bool same_bounds : {true, false}) {
      const LoweredProgram l = fused(in_a_cube(reach, same_bounds));
      const std::size_t j = l.text.find("parallel for j in");
      ASSERT_NE(l.text.find("strip"), std::string::npos) << l.text;
      ASSERT_NE(j, std::string::npos) << l.text;
      EXPECT_EQ(l.text.find("parallel for j in", j + 1) == std::string::npos, reach == 0 && same_bounds) << l.text;
      for (const std::int64_t n : {1, 2, 70}) expect_same_results(l, {{"n", n}, {"m", 4}});
    }
}

TEST(FuseRows, ThreeNestsJoinOnlyWhereAllOfThemMatch) {
  ProgramBuilder p("cube");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<double>("a", {n, m, m}), b = p.inout<double>("b", {n, m, m}), c = p.inout<double>("c", {n, m, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m))
      for (auto k : p.loop("k", 0, m)) b(i, j, k) = 2.0 * a(i, j, k);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m))
      for (auto k : p.loop("k", 0, m)) c(i, j, k) += b(i, j, m - 1 - k);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m))
      for (auto k : p.loop("k", 0, m)) a(i, j, k) = b(i, m - 1 - j, k) + c(i, j, k);
  const LoweredProgram l = fused(p.build());
  std::size_t loops = 0;
  for (std::size_t at = l.text.find("parallel for j"); at != std::string::npos;
       at = l.text.find("parallel for j", at + 1))
    ++loops;
  EXPECT_EQ(loops, 2u) << l.text;
  for (const std::int64_t size : {1, 2, 70}) expect_same_results(l, {{"n", size}, {"m", 3}});
}

enum class Outside { Nothing, ReadsLater, KeepsARow, ReadsTheStepBefore };

// u = g(f(u)) by way of rows of a local array, which something else may need, too.
Program by_way_of_local(int up, int down, int reads, Outside outside = Outside::Nothing) {
  ProgramBuilder p("by_way");
  auto n = p.size("n"), m = p.size("m"), T = p.size("T");
  auto u = p.inout<double>("u", {n, m});
  auto last = p.inout<double>("last", {m});
  auto v = p.local<double>("v", {n, m});
  const bool keeps = outside == Outside::KeepsARow, step_before = outside == Outside::ReadsTheStepBefore;
  if (keeps || step_before)
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) v(i, j) = 1.0;
  for ([[maybe_unused]] auto t : p.loop("t", 0, T)) {
    for (auto i : p.loop("i", up, n - down - (keeps ? 1 : 0)))
      for (auto j : p.loop("j", step_before ? 1 : 0, m)) v(i, j) = u(i - up, j) + 0.5 * u(i + down, j);
    for (auto i : p.loop("i", up + reads, n - down - reads))
      for (auto j : p.loop("j", 0, m)) u(i, j) = 0.9 * v(i - reads, m - 1 - j) + 0.1 * v(i + reads, j) + v(i, j);
  }
  for (auto j : p.loop("j", 0, m)) last(j) = outside == Outside::ReadsLater ? v(up, j) : u(up, j);
  return p.build();
}

constexpr auto whole_local = "local f64 v[n, m]";

TEST(FuseRows, ALocalArrayBetweenRowsKeepsAWindowOfThem) {
  for (const int up : {0, 1, 3})
    for (const int down : {0, 1, 2})
      for (const int reads : {0, 1, 2}) {
        const LoweredProgram l = fused(by_way_of_local(up, down, reads));
        EXPECT_EQ(l.text.find(whole_local), std::string::npos) << l.text;
        EXPECT_NE(l.text.find("place = "), std::string::npos) << l.text;
        for (const std::int64_t rows : {1, 3, 7, 9, 40, 131, 900})
          expect_same_results(l, {{"n", rows + 6}, {"m", 2}, {"T", 2}});
      }
}

TEST(FuseRows, WhatOthersNeedOfALocalArrayKeepsAllOfIt) {
  for (const Outside outside : {Outside::ReadsLater, Outside::KeepsARow, Outside::ReadsTheStepBefore}) {
    const LoweredProgram l = fused(by_way_of_local(1, 1, 1, outside));
    EXPECT_NE(l.text.find("strip"), std::string::npos) << l.text;
    EXPECT_NE(l.text.find(whole_local), std::string::npos) << l.text;
    expect_same_results(l, {{"n", 40}, {"m", 2}, {"T", 2}});
  }
}

}  // namespace
}  // namespace loopgrad::transforms
