// Sums by several indices from data as one stream.
#include "transforms/sums/join_scatters.h"
#include "tests/unit/passes/expect_pass.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

const char* const springs = R"(
  program p(n, m)
    input  i32 ends[m, 2]
    input  i32 other[m]
    input  f32 l[m]
    input  f32 d[m, 3]
    inout  f32 f[n, 3]
    inout  f32 g[n, 3]
    fact   ends in 0..n
    fact   other in 0..n
)";

TEST(JoinScatters, BothEndsOfASpringAreOneStream) {
  expect_pass("join_scatters", springs, R"(
    for e in 0..m:
      parallel for c in 0..3:
        f[ends[e, 0], c] += (segments) -l[e]*d[e, c]
    for k in 0..m:
      parallel for j in 0..3:
        f[ends[k, 1], j] += (segments) l[k]*d[k, j]
  )",
              R"(
    for e in 0..m:
      for which in 0..2:
        parallel for c in 0..3:
          f[ends[e, which], c] += (segments) select(which == 0, -l[e], l[e])*d[e, c]
  )");
}

TEST(JoinScatters, SumsIntoTheSameElementsAreTermsOfOneInstance) {
  expect_pass("join_scatters", springs, R"(
    for e in 0..m:
      f[ends[e, 0], 0] += (segments) l[e]
    for e in 0..m:
      f[ends[e, 1], 0] += (segments) d[e, 0]
    for e in 0..m:
      f[ends[e, 0], 0] += (segments) d[e, 1]
    for e in 0..m:
      f[ends[e, 1], 0] += (segments) d[e, 2]
    for e in 0..m:
      f[other[e], 0] += (segments) d[e, 2]
  )",
              R"(
    for e in 0..m:
      for which in 0..2:
        for term in 0..2:
          f[ends[e, which], 0] += (segments) select(which == 0, select(term == 0, l[e], d[e, 1]), d[e, 2*term])
    for e in 0..m:
      f[other[e], 0] += (segments) d[e, 2]
  )");
}

// A condition belongs to its sum; a load in one branch is made for that sum only.
TEST(JoinScatters, ConditionsAreThoseOfEachSum) {
  expect_pass("join_scatters", springs, R"(
    for e in 0..m:
      if l[e] < 1:
        f[ends[e, 0], 1] += (segments) l[e]
    for e in 0..m:
      f[other[e], 1] += (segments) d[e, 1]
  )",
              R"(
    for e in 0..m:
      for which in 0..2:
        if select(which == 0, l[e] < 1, true):
          f[i64(select(which == 0, ends[e, 0], other[e])), 1] += (segments) select(which == 0, l[e], d[e, 1])
  )");
}

// Each sum has a row for every iteration, but both have not.
TEST(JoinScatters, KeepsNestsThatAreParallelForEachSumAlone) {
  expect_kept("join_scatters", R"(
    program p(n, m)
      input  i32 key[n]
      input  f32 a[n]
      inout  f32 t[2*n, m]
      fact key in 0..m
  )",
              R"(
    parallel for j in 0..n:
      t[j + n, key[j]] += (segments) a[j]
    parallel for k in 0..n:
      t[2*k, key[k]] += (segments) a[k]
  )");
}

TEST(JoinScatters, SumsIntoOtherArraysMayStandBetween) {
  expect_pass("join_scatters", springs, R"(
    for e in 0..m:
      f[ends[e, 0], 0] += (segments) l[e]
    for e in 0..m:
      g[ends[e, 0], 0] += (segments) d[e, 0]
    for e in 0..m:
      f[ends[e, 1], 0] += (segments) l[e]
    for e in 0..m:
      g[ends[e, 1], 0] += (segments) d[e, 1]
  )",
              R"(
    for e in 0..m:
      for which in 0..2:
        f[ends[e, which], 0] += (segments) l[e]
    for e in 0..m:
      for which in 0..2:
        g[ends[e, which], 0] += (segments) d[e, which]
  )");
  expect_kept("join_scatters", springs, R"(
    for e in 0..m:
      f[ends[e, 0], 0] += (segments) l[e]
    for e in 0..m:
      g[ends[e, 0], 0] += (segments) f[other[e], 0]
    for e in 0..m:
      f[ends[e, 1], 0] += (segments) l[e]
  )");
}

TEST(JoinScatters, KeepsColumnsThatShareASortOtherArraysAndOtherLoops) {
  for (const char* second : {"for e in 0..m:\n  f[ends[e, 0], 1] += (segments) d[e, 0]\n",
                             "for e in 0..m:\n  g[ends[e, 1], 0] += (segments) d[e, 0]\n",
                             "for e in 1..m:\n  f[ends[e, 1], 0] += (segments) d[e, 0]\n",
                             "for e in 0..m:\n  f[ends[e, 1], 0] max= (segments) d[e, 0]\n",
                             "l_sum = 0\nfor e in 0..m:\n  f[ends[e, 1], 0] += (segments) d[e, 0]\n"})
    expect_kept("join_scatters", std::string(springs) + "    output f32 l_sum\n",
                std::string("for e in 0..m:\n  f[ends[e, 0], 0] += (segments) l[e]\n") + second);
}

TEST(JoinScatters, KeepsElementsAtADistanceWhichShareASort) {
  expect_kept("join_scatters", springs, R"(
    for e in 0..m:
      f[ends[e, 0], 0] += (segments) l[e]
    for e in 0..m:
      f[ends[e, 0] + 1, 0] += (segments) d[e, 0]
  )");
}

TEST(ByNumber, IsEachOfTheExpressionsInTurn) {
  const ir::Program p = program_of(springs, R"(
    for e in 0..m:
      f[0, 0] = max(d[e, 0], l[e] + 1)
      f[0, 0] = max(d[e, 2], l[e] + 3)
      f[0, 0] = max(d[e, 4], l[e] + 4)
      f[0, 0] = l[e]
  )");
  std::vector<ir::Expr> values;
  ir::walk_stmts(p.body, [&](const ir::Stmt& s) {
    if (const auto* set = s.as<ir::Assign>()) values.push_back(set->value);
  });
  const ir::Expr k = ir::var(ir::make_symbol("k"));
  const auto text = [&](std::size_t first, std::size_t count) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
    return ir::print(by_number({begin, begin + static_cast<std::ptrdiff_t>(count)}, k));
  };
  EXPECT_EQ(text(0, 1), "max(d[e, 0], l[e] + 1)");
  EXPECT_EQ(text(0, 3), "max(d[e, 2*k], l[e] + select(k == 0, 1, select(k == 1, 3, 4)))");
  EXPECT_EQ(text(2, 2), "select(k == 0, max(d[e, 4], l[e] + 4), l[e])");
  EXPECT_FALSE(by_number({values[0], ir::int_const(1)}, k)) << "of one type";
}

}  // namespace
}  // namespace loopgrad::transforms
