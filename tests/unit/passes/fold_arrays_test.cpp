// fold_arrays, alone.
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

}  // namespace
}  // namespace loopgrad::transforms
