// Passes that decide where values live, each alone.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

TEST(FoldArrays, KeepsTheLevelsThatAStepUses) {
  expect_pass("fold_arrays", R"(
    program p(T, n)
      input  f32 seed[n]
      output f32 y[n]
    )",
              R"(
    local f32 v[T + 1, n]
    for i in 0..n:
      v[T, i] = seed[i]
    for t in 0..T reversed:
      parallel for i in 0..n:
        v[t, i] = v[t + 1, i]*v[t + 1, min(i + 1, n - 1)]
    for i in 0..n:
      y[i] = v[0, i]
    )",
              R"(
    local f32 v[2, n]
    for i in 0..n:
      v[T%2, i] = seed[i]
    for t in 0..T reversed:
      parallel for i in 0..n:
        v[t%2, i] = v[(t + 1)%2, i]*v[(t + 1)%2, min(i + 1, n - 1)]
    for i in 0..n:
      y[i] = v[0, i]
    )",
              "v: folded, 2 of T + 1 levels in dimension 0");
}

TEST(FoldArrays, PutsALevelInThePlaceOfTheOneItComesFrom) {
  expect_pass("fold_arrays", R"(
    program p(T, n)
      input  f32 seed[n]
      output f32 y[n]
    )",
              R"(
    local f32 v[T + 1, n]
    for i in 0..n:
      v[T, i] = seed[i]
    for t in 0..T reversed:
      parallel for i in 0..n:
        v[t, i] = v[t + 1, i]*0.5
    for i in 0..n:
      y[i] = v[0, i]
    )",
              R"(
    local f32 v[1, n]
    for i in 0..n:
      v[0, i] = seed[i]
    for t in 0..T reversed:
      parallel for i in 0..n:
        v[0, i] = v[0, i]*0.5
    for i in 0..n:
      y[i] = v[0, i]
    )",
              "v: folded, 1 of T + 1 levels in dimension 0");
}

TEST(FoldArrays, KeepsAllWhenALaterReaderWantsAnEarlyLevel) {
  expect_kept("fold_arrays", R"(
    program p(T, n)
      input  f32 seed[n]
      output f32 y[n]
    )",
              R"(
    local f32 v[T + 1, n]
    for i in 0..n:
      v[T, i] = seed[i]
    for t in 0..T reversed:
      parallel for i in 0..n:
        v[t, i] = v[t + 1, i]*0.5
    for i in 0..n:
      y[i] = v[T, i]
    )");
}

// Iterations at once store to places of their own, also where nobody reads what they store, and each finds what it has
// stored itself.
TEST(FoldArrays, KeepsApartWhatIterationsAtOnceStore) {
  const char* declarations = R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
  )";
  expect_kept("fold_arrays", declarations, R"(
    local f32 v[n, 3]
    parallel for i in 0..n:
      parallel for k in 0..3:
        v[i, k] = x[i]*f32(k)
    for t in 0..n:
      y[t] = v[t, 1]
      v[t, t%3] = 2
  )");
  expect_kept("fold_arrays", declarations, R"(
    local f32 v[3]
    parallel for k in 0..3:
      v[k] = x[0]*f32(k)
      y[k] = v[k]
    for t in 0..n:
      v[t%3] = x[t]
      y[t] += v[t%3]
  )");
}

TEST(FoldArrays, KeepsThreeLevelsInTheMiddleDimension) {
  expect_pass("fold_arrays", R"(
    program p(T, n, m)
      input  f32 x[n, m]
      output f32 y[n, m]
    )",
              R"(
    local f32 u[n, T + 2, m]
    parallel for i in 0..n:
      for j in 0..m:
        u[i, 0, j] = x[i, j]
        u[i, 1, j] = x[i, j]*0.5
    for t in 0..T:
      parallel for i in 1..n - 1:
        for j in 0..m:
          u[i, t + 2, j] = u[i - 1, t + 1, j] + u[i + 1, t + 1, j] - u[i, t, m - 1 - j]
      parallel for j in 0..m:
        u[0, t + 2, j] = u[0, t + 1, j]
        u[n - 1, t + 2, j] = u[n - 1, t, j]
    parallel for i in 0..n:
      for j in 0..m:
        y[i, j] = u[i, T + 1, j]
    )",
              R"(
    local f32 u[n, 3, m]
    parallel for i in 0..n:
      for j in 0..m:
        u[i, 0, j] = x[i, j]
        u[i, 1, j] = x[i, j]*0.5
    for t in 0..T:
      parallel for i in 1..n - 1:
        for j in 0..m:
          u[i, (t + 2)%3, j] = u[i - 1, (t + 1)%3, j] + u[i + 1, (t + 1)%3, j] - u[i, t%3, m - 1 - j]
      parallel for j in 0..m:
        u[0, (t + 2)%3, j] = u[0, (t + 1)%3, j]
        u[n - 1, (t + 2)%3, j] = u[n - 1, t%3, j]
    parallel for i in 0..n:
      for j in 0..m:
        y[i, j] = u[i, (T + 1)%3, j]
    )",
              "u: folded, 3 of T + 2 levels in dimension 1");
}

TEST(FoldArrays, CountsLevelsThatALoopInTheStepGoesThrough) {
  // Four levels by a loop over the last ones, and a level that a nest of its own has read for the last time.
  expect_pass("fold_arrays", R"(
    program p(T, n)
      input  f32 x[n]
      output f32 y[n]
      output f32 w[n]
    )",
              R"(
    local f32 u[T + 3, n]
    for l in 0..3:
      parallel for i in 0..n:
        u[l, i] = x[i]
    for t in 3..T + 3:
      parallel for i in 0..n:
        w[i] = u[t - 3, n - 1 - i]
      parallel for i in 0..n:
        u[t, i] = w[i]
        for l in 1..3:
          u[t, i] += u[t - l, max(i - 1, 0)]*0.25
    parallel for i in 0..n:
      y[i] = u[T + 2, i]
    )",
              R"(
    local f32 u[3, n]
    for l in 0..3:
      parallel for i in 0..n:
        u[l%3, i] = x[i]
    for t in 3..T + 3:
      parallel for i in 0..n:
        w[i] = u[t%3, n - 1 - i]
      parallel for i in 0..n:
        u[t%3, i] = w[i]
        for l in 1..3:
          u[t%3, i] += u[(t - l)%3, max(i - 1, 0)]*0.25
    parallel for i in 0..n:
      y[i] = u[(T + 2)%3, i]
    )",
              "u: folded, 3 of T + 3 levels in dimension 0");
}

TEST(FoldArrays, FindsTheLevelsOfStepsInsideOfOtherLoops) {
  expect_pass("fold_arrays", R"(
    program p(b, T, n)
      input  f32 x[b, n]
      output f32 y[b, n]
    )",
              R"(
    parallel for k in 0..b:
      local f32 u[T + 1, n]
      for i in 0..n:
        u[T, i] = x[k, i]
      for t in 0..T reversed:
        for i in 0..n:
          if t > 0:
            u[t, i] = u[t + 1, n - 1 - i]
          else:
            u[t, i] = u[t + 1, i]
      for i in 0..n:
        y[k, i] = u[0, i]
    )",
              R"(
    parallel for k in 0..b:
      local f32 u[2, n]
      for i in 0..n:
        u[T%2, i] = x[k, i]
      for t in 0..T reversed:
        for i in 0..n:
          if t > 0:
            u[t%2, i] = u[(t + 1)%2, n - 1 - i]
          else:
            u[t%2, i] = u[(t + 1)%2, i]
      for i in 0..n:
        y[k, i] = u[0, i]
    )");
}

TEST(FoldArrays, FillsALevelInTheStepThatFirstUsesIt) {
  expect_pass("fold_arrays", R"(
    program p(T, n)
      input  f32 x[n]
      output f32 y[n]
    )",
              R"(
    local f32 u[T + 1, n]
    parallel for l in 0..T + 1:
      u[l, 0] = 1
    parallel for i in 1..n:
      u[0, i] = x[i]
    for t in 0..T:
      parallel for i in 1..n:
        u[t + 1, i] = u[t, i - 1]*0.5
    parallel for i in 1..n:
      y[i] = u[T, i]
    y[0] = 0
    )",
              R"(
    local f32 u[2, n]
    parallel for l in 0..min(T + 1, 2):
      u[l%2, 0] = 1
    parallel for i in 1..n:
      u[0, i] = x[i]
    for t in 0..T:
      if t != 0 && t + 1 >= 0 && t + 1 < T + 1:
        u[(t + 1)%2, 0] = 1
      parallel for i in 1..n:
        u[(t + 1)%2, i] = u[t%2, i - 1]*0.5
    parallel for i in 1..n:
      y[i] = u[T%2, i]
    y[0] = 0
    )");
}

TEST(FoldArrays, KeepsAllWhenSomeStepsReachFarBack) {
  for (const char* read : {"u[0, i]", "u[t//2, i]", "u[at[t], i]"}) {
    expect_kept("fold_arrays", R"(
      program p(T, n)
        input  f32 x[n]
        input  i64 at[T]
        output f32 y[n]
        fact   at in 0..1
      )",
                std::string(R"(
      local f32 u[T + 1, n]
      parallel for i in 0..n:
        u[0, i] = x[i]
      for t in 0..T:
        parallel for i in 0..n:
          u[t + 1, i] = u[t, i] + )") +
                    read + R"(
      parallel for i in 0..n:
        y[i] = u[T, i]
      )");
  }
}

TEST(FoldArrays, KeepsAllWhenStepsAreParallel) {
  expect_kept("fold_arrays", R"(
    program p(T, n)
      input  f32 x[T, n]
      output f32 y[T, n]
    )",
              R"(
    local f32 v[T, n]
    parallel for t in 0..T:
      for i in 0..n:
        v[t, i] = x[t, i]
      for i in 0..n:
        y[t, i] = v[t, i]
    )");
}

TEST(MergeCopies, StoresOnTheTapeAtOnce) {
  expect_pass("merge_copies", R"(
    program p(T, n)
      inout  f32 u[n]
      tape   f32 u_tape[T, n - 2]
    )",
              R"(
    local f32 v[n]
    for t in 0..T:
      for i in 1..n - 1:
        v[i] = u[i - 1]*u[i + 1]
      for i in 1..n - 1:
        u[i] = v[i]
        u_tape[t, i - 1] = u[i]
    )",
              R"(
    for t in 0..T:
      for i in 1..n - 1:
        u_tape[t, i - 1] = u[i - 1]*u[i + 1]
      for i in 1..n - 1:
        u[i] = u_tape[t, i - 1]
    )");
}

TEST(MergeCopies, LivesWhereItIsCopiedInTheEnd) {
  expect_pass("merge_copies", R"(
    program p(T, n, m)
      input  f32 d_u[n, m]
      output f32 d_u0[n, m]
    )",
              R"(
    local f32 d_now[n, m]
    for i in 0..n:
      for j in 0..m:
        d_now[i, j] = d_u[i, j]
    for t in 0..T reversed:
      for i in 0..n:
        for j in 0..m:
          d_now[i, j] += d_now[i, j]*0.5
    for i in 0..n:
      for j in 0..m:
        d_u0[i, j] = d_now[i, j]
    )",
              R"(
    for i in 0..n:
      for j in 0..m:
        d_u0[i, j] = d_u[i, j]
    for t in 0..T reversed:
      for i in 0..n:
        for j in 0..m:
          d_u0[i, j] += d_u0[i, j]*0.5
    )");
}

TEST(MergeCopies, SumsInARowOfTheResultThatSeveralNestsMake) {
  expect_pass("merge_copies", R"(
    program p(T, n)
      input  f32 x[T, n]
      output f32 y[T, n]
      inout  f32 s[T]
    )",
              R"(
    local f32 h[n]
    for t in 0..T:
      for i in 0..n:
        h[i] = 0
      for k in 0..n:
        for i in 0..n:
          h[i] += x[t, k]
      for i in 0..n:
        y[t, n - i - 1] = h[i]
      for i in 0..n:
        s[t] += h[i]
    )",
              R"(
    for t in 0..T:
      for i in 0..n:
        y[t, n - i - 1] = 0
      for k in 0..n:
        for i in 0..n:
          y[t, n - i - 1] += x[t, k]
      for i in 0..n:
        s[t] += y[t, n - i - 1]
    )",
              "h: alias, y[t, n - i - 1]");
}

TEST(MergeCopies, KeepsALocalThatLivesOnFromStepToStep) {
  for (const char* start : {"if t == 0:\n      for i in 0..n:\n        h[i] = 0", "s[t] = h[0]"}) {
    expect_kept("merge_copies", R"(
  program p(T, n)
    input  f32 x[T, n]
    output f32 y[T, n]
    inout  f32 s[T]
  )",
                "  local f32 h[n]\n  for i in 0..n:\n    h[i] = 1\n  for t in 0..T:\n    " + std::string(start) + R"(
    for i in 0..n:
      h[i] += x[t, i]
    for i in 0..n:
      y[t, i] = h[i]
  )");
  }
}

TEST(MergeCopies, KeepsALocalThatIsNotAlwaysCopied) {
  expect_kept("merge_copies", R"(
    program p(n)
      input  f32 x[n]
      inout  f32 y[n]
      output f32 z
    )",
              R"(
    local f32 v[n]
    for i in 0..n:
      v[i] = x[i]*2
    if n > 100:
      for i in 0..n:
        y[i] = v[i]
    z = v[0]
    )");
}

TEST(MergeCopies, KeepsALocalThatIsUsedAfterTheCopy) {
  expect_kept("merge_copies", R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
      output f32 z
    )",
              R"(
    local f32 v[n]
    for i in 0..n:
      v[i] = x[i]*2
    for i in 0..n:
      y[i] = v[i]
    v[0] = 3
    z = v[0]
    )");
}

TEST(MergeCopies, KeepsALocalOfWhichAPartIsCopied) {
  expect_kept("merge_copies", R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
    )",
              R"(
    local f32 v[n]
    for i in 0..n:
      v[i] = x[i]*2
    for i in 1..n:
      y[i] = v[i] + v[i - 1]
    y[0] = v[0]
    )");
}

TEST(ReadLevels, ReadsTheStateOfTheStepBeforeFromTheTape) {
  expect_pass("read_levels", R"(
    program p(T, n, m)
      input  f32 u0[n, m]
      output f32 u[n, m]
      tape   f32 u_tape[T, n, m]
    )",
              R"(
    for i in 0..n:
      for j in 0..m:
        u[i, j] = u0[i, j]
    for t in 0..T:
      for i in 1..n - 1:
        for j in 1..m - 1:
          u_tape[t, i, j] = u[i, j] + u[i, j + 1]*0.5
      for i in 1..n - 1:
        for j in 1..m - 1:
          u[i, j] = u_tape[t, i, j]
    )",
              R"(
    if 0 < n:
      for t in 0..T:
        for z1 in 0..m:
          u_tape[t, 0, z1] = u0[0, z1]
          u_tape[t, n - 1, z1] = u0[n - 1, z1]
    if 0 < m:
      for t in 0..T:
        for z0 in 1..n - 1:
          u_tape[t, z0, 0] = u0[z0, 0]
          u_tape[t, z0, m - 1] = u0[z0, m - 1]
    for t in 0..T:
      for i in 1..n - 1:
        for j in 1..m - 1:
          u_tape[t, i, j] = select(t > 0, u_tape[t - 1, i, j], u0[i, j]) + select(t > 0, u_tape[t - 1, i, j + 1], u0[i, j + 1])*0.5
    for i in 0..n:
      for j in 0..m:
        u[i, j] = select(0 < T, u_tape[T - 1, i, j], u0[i, j])
    )",
              "u: alias, levels of u_tape");
}

TEST(ReadLevels, KeepsArraysThatMayAlias) {
  expect_kept("read_levels", R"(
    program p(T, n)
      input  f32 u0[n]
      output f32 u[n]
      tape   f32 u_tape[T, n]
      fact   u may alias u0
    )",
              R"(
    for i in 0..n:
      u[i] = u0[i]
    for t in 0..T:
      for i in 1..n - 1:
        u_tape[t, i] = u[i] + u[i + 1]*0.5
      for i in 1..n - 1:
        u[i] = u_tape[t, i]
    )");
}

TEST(ReadLevels, KeepsAnArrayThatTheStepChangesElsewhere) {
  expect_kept("read_levels", R"(
    program p(T, n)
      input  f32 u0[n]
      output f32 u[n]
      tape   f32 u_tape[T, n]
    )",
              R"(
    for i in 0..n:
      u[i] = u0[i]
    for t in 0..T:
      for i in 1..n - 1:
        u_tape[t, i] = u[i] + u[i + 1]*0.5
      for i in 1..n - 1:
        u[i] = u_tape[t, i]
      u[0] = u[1]
    )");
}

TEST(StoreLastLevel, PutsTheLastStateWhereItIsCopied) {
  expect_pass("store_last_level", R"(
    program p(T, n)
      input  f32 u[n]
      output f32 y[n]
      tape   f32 v[T + 1, n]
      fact   v[T - 1, ..] is the last that is read later
    )",
              R"(
    for i in 0..n:
      v[0, i] = u[i]
    for t in 0..T:
      for i in 0..n:
        v[t + 1, i] = v[t, i]*0.5
    for i in 0..n:
      y[i] = v[T, i]
    )",
              R"(
    for i in 0..n:
      v[0, i] = u[i]
    for t in 0..T - 1:
      for i in 0..n:
        v[t + 1, i] = v[t, i]*0.5
    if 0 < T:
      for i in 0..n:
        y[i] = v[T - 1, i]*0.5
    if T <= 0:
      for i in 0..n:
        y[i] = v[T, i]
    )",
              "v: alias, last level in y");
}

TEST(StoreLastLevel, KeepsATapeThatIsReadToItsEnd) {
  expect_kept("store_last_level", R"(
    program p(T, n)
      input  f32 u[n]
      output f32 y[n]
      tape   f32 v[T + 1, n]
    )",
              R"(
    for i in 0..n:
      v[0, i] = u[i]
    for t in 0..T:
      for i in 0..n:
        v[t + 1, i] = v[t, i]*0.5
    for i in 0..n:
      y[i] = v[T, i]
    )");
}

TEST(UnreadStores, DropsClearedAdjointsThatNobodyReadsAgain) {
  expect_pass("unread_stores", R"(
    program p(T, n)
      input  f32 g[n]
      output f32 y[n]
    )",
              R"(
    local f32 d_u[T + 1, n]
    for i in 0..n:
      d_u[T, i] = g[i]
    for t in 0..T:
      for i in 0..n:
        d_u[t, i] = 0
    for t in 0..T reversed:
      for i in 0..n:
        local f32 seed
        seed = d_u[t + 1, i]
        d_u[t + 1, i] = 0
        d_u[t, i] += 2*seed
    for i in 0..n:
      y[i] = d_u[0, i]
    )",
              R"(
    local f32 d_u[T + 1, n]
    for i in 0..n:
      d_u[T, i] = g[i]
    for t in 0..T:
      for i in 0..n:
        d_u[t, i] = 0
    for t in 0..T reversed:
      for i in 0..n:
        local f32 seed
        seed = d_u[t + 1, i]
        d_u[t, i] += 2*seed
    for i in 0..n:
      y[i] = d_u[0, i]
    )");
}

TEST(UnreadStores, KeepsAConstantThatIsRead) {
  expect_kept("unread_stores", R"(
    program p(n)
      input  f32 g[n]
      output f32 y[n]
    )",
              R"(
    local f32 v[n]
    for i in 0..n:
      v[i] = 0
    for i in 1..n:
      v[i] = g[i]
    for i in 0..n:
      y[i] = v[i]
    )");
}

TEST(UnreadSums, DropsSumsThatNobodyReads) {
  expect_pass("unread_sums", R"(
    program p(n)
      input  f32 g[n]
      output f32 y[n]
    )",
              R"(
    local f32 d_x[n]
    for i in 0..n:
      d_x[i] = 0
    for i in 0..n:
      d_x[i] += g[i]
      y[i] = g[i]*2
    )",
              R"(
    for i in 0..n:
      y[i] = g[i]*2
    )");
}

TEST(UnreadSums, KeepsSumsThatTheCallerReads) {
  expect_kept("unread_sums", R"(
    program p(n)
      input  f32 g[n]
      output f32 y[n]
      output f32 d_x[n]
    )",
              R"(
    for i in 0..n:
      d_x[i] = 0
    for i in 0..n:
      d_x[i] += g[i]
      y[i] = g[i]*2
    )");
}

TEST(UnreadElements, GivesAConditionToStoresOfABorder) {
  expect_pass("unread_elements", R"(
    program p(n)
      input  f32 g[n]
      output f32 y[n]
    )",
              R"(
    local f32 d_x[n]
    for i in 0..n:
      d_x[i] = g[i]
    for i in 1..n - 1:
      y[i] = d_x[i]
    )",
              R"(
    local f32 d_x[n]
    for i in 0..n:
      if n >= i + 2 && i >= 1:
        d_x[i] = g[i]
    for i in 1..n - 1:
      y[i] = d_x[i]
    )");
}

TEST(UnreadElements, KeepsStoresThatAreAllRead) {
  expect_kept("unread_elements", R"(
    program p(n)
      input  f32 g[n]
      output f32 y[n]
    )",
              R"(
    local f32 d_x[n]
    for i in 0..n:
      d_x[i] = g[i]
    for i in 0..n:
      y[i] = d_x[i]
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
