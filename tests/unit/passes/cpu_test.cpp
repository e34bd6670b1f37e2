// Passes of the mapping to a CPU, each alone.
#include "tests/unit/passes/expect_pass.h"

#include "dsl/ir/printer.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

TEST(SinkSumLoops, SumsARowElementByElement) {
  expect_pass("sink_sum_loops", R"(
    program p(r, k, m)
      input  f32 a[k]
      input  f32 x[k, m]
      input  i64 s
      inout  f32 y[r, m]
    )",
              R"(
    parallel for i in 0..r:
      for o in 0..k:
        if o < s:
          parallel for d in 0..m:
            y[i, d] += a[o]*x[o, d]
    )",
              R"(
    parallel for i in 0..r:
      parallel for d in 0..m:
        for o in 0..k:
          if o < s:
            y[i, d] += a[o]*x[o, d]
    )");
}

// Rows through an array that is another one in each step, and a triangle: the indices alone do not show it.
TEST(SinkSumLoops, AsksTheModelWhetherIterationsMeet) {
  expect_pass("sink_sum_loops", R"(
    program p(r, m, T)
      input  f32 x[r, m]
      inout  f32 z[T, r, m + m]
      inout  f32 y[r, m]
    )",
              R"(
    parallel for i in 0..r:
      for t in 0..T reversed:
        if t < r - i:
          parallel for d in i..m:
            z[t, i, m - d] = x[i, d]*2
            y[i, d - i] += z[t, i, m - d]
    )",
              R"(
    parallel for i in 0..r:
      parallel for d in i..m:
        for t in 0..T reversed:
          if t < r - i:
            z[t, i, m - d] = x[i, d]*2
            y[i, d - i] += z[t, i, m - d]
    )");
  expect_kept("sink_sum_loops", R"(
    program p(r, m, T)
      inout  f32 z[r, m]
      inout  f32 y[r, m]
    )",
              R"(
    parallel for i in 0..r:
      for t in 0..T:
        parallel for d in 0..m:
          z[i, d] = z[i, d]*2 + 1
          y[i, d] += z[i, m - 1 - d]
    )");
}

TEST(SinkSumLoops, KeepsLoopsWhoseIterationsMeetInAnElement) {
  expect_kept("sink_sum_loops", R"(
    program p(r, k, m)
      input  f32 a[k]
      input  f32 x[k, m]
      inout  f32 y[r, m + k]
    )",
              R"(
    parallel for i in 0..r:
      for o in 0..k:
        parallel for d in 0..m:
          y[i, d + o] += a[o]*x[o, d]
    )");
}

TEST(SplitLoopsAtGuards, FreesTheMiddleOfConditions) {
  expect_pass("split_loops_at_guards", R"(
    program p(n)
      input  f32 a[n]
      inout  f32 x[n]
    )",
              R"(
    for c in 0..n:
      if c >= 1:
        x[c] += a[c - 1]
      if c < n - 1:
        x[c] += a[c + 1]
    )",
              R"(
    for c in 0..min(1, n):
      if c >= 1:
        x[c] += a[c - 1]
      if c < n - 1:
        x[c] += a[c + 1]
    for c in min(1, n)..max(min(1, n), n - 1):
      x[c] += a[c - 1]
      x[c] += a[c + 1]
    for c in max(min(1, n), n - 1)..n:
      if c >= 1:
        x[c] += a[c - 1]
      if c < n - 1:
        x[c] += a[c + 1]
    )");
}

// A value of the iteration before is read, and saved, in all iterations but the first.
TEST(SplitLoopsAtGuards, DecidesConditionsThatDenyTheTakenOnes) {
  expect_pass("split_loops_at_guards", R"(
    program p(n)
      input  f32 a
      inout  f32 x
      output f32 saved[n]
    )",
              R"(
    for c in 0..n:
      if !(c <= 0):
        saved[c] = x
      x = select(c <= 0, a, x)*2
    )",
              R"(
    for c in 0..min(0, n):
      if !(c <= 0):
        saved[c] = x
      x = select(c <= 0, a, x)*2
    for c in min(0, n)..max(min(0, n), min(n, 1)):
      x = a*2
    for c in max(min(0, n), min(n, 1))..n:
      if !(c <= 0):
        saved[c] = x
      x = select(c <= 0, a, x)*2
    )");
}

TEST(SplitLoopsAtGuards, KeepsConditionsThatReadData) {
  expect_kept("split_loops_at_guards", R"(
    program p(n)
      input  f32 a[n]
      inout  f32 x[n]
    )",
              R"(
    for c in 0..n:
      if a[c] >= 1:
        x[c] += a[c]
    )");
}

TEST(SplitOuterLoopsAtGuards, LeavesTheStatementsWhereTheBranchIsNotTaken) {
  expect_pass("split_outer_loops_at_guards", R"(
    program p(r, n, k)
      input  f32 a[n]
      input  f32 w[k]
      inout  f32 x[r, n]
    )",
              R"(
    parallel for i in 0..r:
      for c in 0..n:
        x[i, c] = x[i, c]*2
        if c >= 2:
          for l in 0..k:
            x[i, c] += a[c - 2]*w[l]
    )",
              R"(
    parallel for i in 0..r:
      for c in 0..min(2, n):
        x[i, c] = x[i, c]*2
      for c in 2..n:
        x[i, c] = x[i, c]*2
        for l in 0..k:
          x[i, c] += a[c - 2]*w[l]
      for c in max(min(2, n), n)..n:
        x[i, c] = x[i, c]*2
    )");
}

TEST(SplitOuterLoopsAtGuards, KeepsConditionsThatReadData) {
  expect_kept("split_outer_loops_at_guards", R"(
    program p(r, n, k)
      input  f32 a[n]
      input  f32 w[k]
      inout  f32 x[r, n]
    )",
              R"(
    parallel for i in 0..r:
      for c in 0..n:
        x[i, c] = x[i, c]*2
        if a[c] >= 2:
          for l in 0..k:
            x[i, c] += a[c]*w[l]
    )");
}

TEST(JamSums, DoesEightSumsSideBySide) {
  expect_pass("jam_sums", R"(
    program p(n, k, m)
      input  f32 q[n, m]
      input  f32 w[k, m]
      output f32 score[n, k]
    )",
              R"(
    parallel for i in 0..n:
      score[i, 0] = 0
      parallel for o in 0..k:
        local f32 s
        s = 0
        for d in 0..m:
          s += q[i, d]*w[o, d]
        score[i, o] = s
    )",
              R"(
    parallel for i in 0..n:
      score[i, 0] = 0
      parallel for o_unrolled in 0..k//8:
        local f32 s
        local f32 s_1
        local f32 s_2
        local f32 s_3
        local f32 s_4
        local f32 s_5
        local f32 s_6
        local f32 s_7
        s = 0
        s_1 = 0
        s_2 = 0
        s_3 = 0
        s_4 = 0
        s_5 = 0
        s_6 = 0
        s_7 = 0
        for d in 0..m:
          s += q[i, d]*w[8*o_unrolled, d]
          s_1 += q[i, d]*w[8*o_unrolled + 1, d]
          s_2 += q[i, d]*w[8*o_unrolled + 2, d]
          s_3 += q[i, d]*w[8*o_unrolled + 3, d]
          s_4 += q[i, d]*w[8*o_unrolled + 4, d]
          s_5 += q[i, d]*w[8*o_unrolled + 5, d]
          s_6 += q[i, d]*w[8*o_unrolled + 6, d]
          s_7 += q[i, d]*w[8*o_unrolled + 7, d]
        score[i, 8*o_unrolled] = s
        score[i, 8*o_unrolled + 1] = s_1
        score[i, 8*o_unrolled + 2] = s_2
        score[i, 8*o_unrolled + 3] = s_3
        score[i, 8*o_unrolled + 4] = s_4
        score[i, 8*o_unrolled + 5] = s_5
        score[i, 8*o_unrolled + 6] = s_6
        score[i, 8*o_unrolled + 7] = s_7
      parallel for o in 8*(k//8)..k:
        local f32 s
        s = 0
        for d in 0..m:
          s += q[i, d]*w[o, d]
        score[i, o] = s
    )");
}

TEST(JamSums, KeepsSumsOfDifferentLengths) {
  expect_kept("jam_sums", R"(
    program p(n, k, m)
      input  f32 q[n, m]
      input  f32 w[k, m]
      output f32 score[n, k]
    )",
              R"(
    parallel for i in 0..n:
      score[i, 0] = 0
      parallel for o in 0..k:
        local f32 s
        s = 0
        for d in 0..o:
          s += q[i, d]*w[o, d]
        score[i, o] = s
    )");
}

TEST(HoistIndices, ReadsAnIndexBeforeTheLoop) {
  expect_pass("hoist_indices", R"(
    program p(k, n, m)
      input  i32 src[k]
      input  f32 y[n]
      input  f32 x[m, n]
      inout  f32 s
      fact   src in 0..m
    )",
              R"(
    for e in 0..k:
      for j in 0..n:
        s += y[j]*x[src[e], j]
    )",
              R"(
    for e in 0..k:
      local i32 src_row
      src_row = select(0 < n, src[e], 0)
      for j in 0..n:
        s += y[j]*x[src_row, j]
    )");
}

TEST(HoistIndices, ChoosesARowBeforeTheLoop) {
  expect_pass("hoist_indices", R"(
    program p(k, n, m)
      input  f32 y[n]
      input  f32 x[m, n]
      inout  f32 s
    )",
              R"(
    for e in 0..k:
      for j in 0..n:
        s += y[j]*x[min(select(e < 2, 2 - e, e), m - 1), j]
    )",
              R"(
    for e in 0..k:
      local i64 x_row
      x_row = min(select(e < 2, 2 - e, e), m - 1)
      for j in 0..n:
        s += y[j]*x[x_row, j]
    )");
}

// Each iteration chooses its own.
TEST(HoistIndices, KeepsAChoiceOfTheLoop) {
  expect_kept("hoist_indices", R"(
    program p(k, n, m)
      input  f32 x[m, n]
      inout  f32 s
    )",
              R"(
    for e in 0..k:
      for j in 0..n:
        s += x[e, select(j < 2, 2 - j, j)]
    )");
}

TEST(HoistIndices, KeepsAnIndexThatTheLoopChanges) {
  expect_kept("hoist_indices", R"(
    program p(k, n, m)
      inout  i32 src[k]
      input  f32 y[n]
      input  f32 x[m, n]
      inout  f32 s
      fact   src in 0..m
    )",
              R"(
    for e in 0..k:
      for j in 0..n:
        s += y[j]*x[src[e], j]
        src[e] = 0
    )");
}

// What cannot be done by segments stays, and the word for the mapping goes.
TEST(InvertScatters, KeepsSumsOfWhatTheNestReads) {
  expect_pass("invert_scatters", R"(
    program p(k, n, m)
      input  i32 idx[k]
      inout  f32 d_x[n, m]
      fact   idx in 0..n
    )",
              R"(
    for e in 0..k:
      parallel for j in 0..m:
        d_x[idx[e], j] += (segments) d_x[0, j]
    )",
              R"(
    for e in 0..k:
      parallel for j in 0..m:
        d_x[idx[e], j] += d_x[0, j]
    )");
}

// Sums of one nest that no inverse serves, as there are no rows, are one nest again: what they read is read once.
TEST(InvertScatters, JoinsNestsThatStayAsTheyAre) {
  expect_pass("invert_scatters", R"(
    program p(k, n)
      input  i32 a[k]
      input  i32 b[k]
      input  f32 x[k]
      inout  f32 f[n]
      inout  f32 g[n]
      fact   a in 0..n
      fact   b in 0..n
    )",
              R"(
    for e in 0..k:
      if x[e] > 0:
        f[a[e]] += (segments) -x[e]
    for i in 0..k:
      f[b[i]] += (segments) x[i]
    for e in 0..k:
      g[b[e]] += (segments) x[e]
    )",
              R"(
    for e in 0..k:
      if x[e] > 0:
        f[a[e]] += -x[e]
      f[b[e]] += x[e]
      g[b[e]] += x[e]
    )");
}

TEST(InvertScatters, JoinsNoNestsOfWhichOneReadsWhatTheOtherAddsTo) {
  expect_pass("invert_scatters", R"(
    program p(k, n)
      input  i32 a[k]
      input  f32 x[k]
      inout  f32 f[n]
      inout  f32 g[n]
      fact   a in 0..n
    )",
              R"(
    for e in 0..k:
      f[a[e]] += (segments) x[e]
    for e in 0..k:
      g[a[e]] += (segments) f[a[e]]
    for e in 0..k reversed:
      g[a[e]] += (segments) x[e]
    )",
              R"(
    for e in 0..k:
      f[a[e]] += x[e]
    for e in 0..k:
      g[a[e]] += f[a[e]]
    for e in 0..k reversed:
      g[a[e]] += x[e]
    )");
}

// The plan decides, by a word of the sum: what it gave partial results, say, looks the same.
TEST(InvertScatters, KeepsSumsThatAreNotPlannedSo) {
  const char* declarations = R"(
    program p(k, n, m)
      input  i32 idx[k]
      input  f32 x[k, m]
      inout  f32 d_x[n, m]
      fact   idx in 0..n
    )";
  expect_kept("invert_scatters", declarations, R"(
    for e in 0..k:
      parallel for j in 0..m:
        d_x[idx[e], j] += x[e, j]
    )");
  const PassResult planned = run_passes("invert_scatters", declarations, R"(
    for e in 0..k:
      parallel for j in 0..m:
        d_x[idx[e], j] += (segments) x[e, j]
    )");
  const std::string text = ir::print(planned.after);
  EXPECT_NE(text.find("first[target]"), std::string::npos) << text;
  EXPECT_EQ(text.find("(segments)"), std::string::npos) << "it is done: " << text;
}

// Loops that the user tiled: those of a tile start where the loops over tiles say. The width of a row is asked before
// the nest, where no iterator has a value.
TEST(InvertScatters, AsksForTheWidthOfRowsOutsideOfAllLoops) {
  const PassResult result = run_passes("invert_scatters", R"(
    program p(k, n, m)
      input  i32 idx[k]
      input  f32 x[k, m]
      inout  f32 d_x[n, m]
      fact   idx in 0..n
    )",
                                       R"(
    parallel for a in 0..(m + 63)//64:
      for i in 0..k:
        parallel for b in 4*a..min((m + 15)//16, 4*a + 4):
          parallel for j in 16*b..min(m, 16*b + 16):
            d_x[idx[i], j] += (segments) x[i, j]
    )");
  EXPECT_EQ(ir::print(result.after.body).find("if k >= 2048 && min(m, 16) >= 8:\n"), 0U) << ir::print(result.after);
}

TEST(FuseRows, KeepsNestsThatShareNoArray) {
  expect_kept("fuse_rows", R"(
    program p(n, m)
      input  f32 x[n, m]
      input  f32 y[n, m]
      output f32 u[n, m]
      output f32 v[n, m]
    )",
              R"(
    parallel for i in 0..n:
      parallel for j in 0..m:
        u[i, j] = x[i, j]
    parallel for i in 0..n:
      parallel for j in 0..m:
        v[i, j] = y[i, j]
    )");
}

TEST(TileLanes, RunsIterationsSideBySide) {
  expect_pass("tile_lanes", R"(
    program p(n, k)
      input  f32 x[n + k - 1]
      input  f32 w[k]
      output f32 y[n]
    )",
              R"(
    parallel for i in 0..n:
      local f32 s
      s = 0
      for j in 0..k:
        s += x[i + j]*w[j]
      y[i] = s
    )",
              R"(
    parallel for i_tile in 0..n//64:
      local f32 s[64]
      parallel for lane in 0..64:
        s[lane] = 0
      for j in 0..k:
        parallel for lane in 0..64:
          s[lane] += x[i_tile*64 + lane + j]*w[j]
      parallel for lane in 0..64:
        y[i_tile*64 + lane] = s[lane]
    parallel for i in n//64*64..n:
      local f32 s
      s = 0
      for j in 0..k:
        s += x[i + j]*w[j]
      y[i] = s
    )");
}

TEST(TileLanes, KeepsLoopsWhoseLanesWouldNotBeNeighbours) {
  expect_kept("tile_lanes", R"(
    program p(n, k)
      input  f32 x[n, k]
      input  f32 w[k]
      output f32 y[n]
    )",
              R"(
    parallel for i in 0..n:
      local f32 s
      s = 0
      for j in 0..k:
        s += x[i, j]*w[j]
      y[i] = s
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
