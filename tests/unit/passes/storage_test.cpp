// Passes that decide where values live, each alone.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

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

TEST(ReadLevels, ReadsWhatANestUpdatesInPlaceFromTheTape) {
  expect_pass("read_levels", R"(
    program p(T, n)
      inout  f32 u[n]
      inout  f32 w[n]
      tape   f32 u_tape[T, n]
    )",
              R"(
    for t in 0..T:
      local f32 around[n]
      for i in 0..n:
        around[i] = u[(i + 1)%n]
      for i in 0..n:
        u[i] += around[i]*u[i]
        u_tape[t, i] = u[i]
        w[i] += u[i]
    )",
              R"(
    for t in 0..T:
      local f32 around[n]
      for i in 0..n:
        around[i] = select(t > 0, u_tape[t - 1, (i + 1)%n], u[(i + 1)%n])
      for i in 0..n:
        u_tape[t, i] = fma(around[i], select(t > 0, u_tape[t - 1, i], u[i]), select(t > 0, u_tape[t - 1, i], u[i]))
        w[i] += u_tape[t, i]
    if 0 < T:
      for i in 0..n:
        u[i] = u_tape[T - 1, i]
    )");
}

TEST(ReadLevels, CompletesLevelsThatANestUpdatesInsideOfABorder) {
  expect_pass("read_levels", R"(
    program p(T, n)
      input  f32 u0[n]
      output f32 u[n]
      inout  f32 w[n]
      tape   f32 u_tape[T, n]
    )",
              R"(
    for i in 0..n:
      u[i] = u0[i]
    for t in 0..T:
      for i in 1..n - 1:
        w[i] += u[i - 1] - u[i + 1]
      for i in 1..n - 1:
        u[i] += w[i]
        u_tape[t, i] = u[i]
    )",
              R"(
    if 0 < n:
      for t in 0..T:
        u_tape[t, 0] = u0[0]
        u_tape[t, n - 1] = u0[n - 1]
    for t in 0..T:
      for i in 1..n - 1:
        w[i] += select(t > 0, u_tape[t - 1, i - 1], u0[i - 1]) - select(t > 0, u_tape[t - 1, i + 1], u0[i + 1])
      for i in 1..n - 1:
        u_tape[t, i] = select(t > 0, u_tape[t - 1, i], u0[i]) + w[i]
    for i in 0..n:
      u[i] = select(0 < T, u_tape[T - 1, i], u0[i])
    )");
}

TEST(ReadLevels, LeavesNothingInALocalThatNobodyReadsLater) {
  expect_pass("read_levels", R"(
    program p(T, n)
      input  f32 x[n]
      inout  f32 w[n]
      tape   f32 u_tape[T, n]
    )",
              R"(
    local f32 u[n]
    for i in 0..n:
      u[i] = x[i]
    for t in 0..T:
      for i in 0..n:
        u[i] = u[i]*u[i]
        u_tape[t, i] = u[i]
      for i in 1..n:
        w[i] += u[i - 1]
    )",
              R"(
    for t in 0..T:
      for i in 0..n:
        u_tape[t, i] = select(t > 0, u_tape[t - 1, i], x[i])*select(t > 0, u_tape[t - 1, i], x[i])
      for i in 1..n:
        w[i] += u_tape[t, i - 1]
    )");
}

TEST(ReadLevels, KeepsAnArrayOfWhichAnIterationReadsTheNext) {
  expect_kept("read_levels", R"(
    program p(T, n)
      inout  f32 u[n]
      tape   f32 u_tape[T, n]
    )",
              R"(
    for t in 0..T:
      for i in 0..n:
        u[i] += u[(i + 1)%n]
        u_tape[t, i] = u[i]
    )");
}

TEST(ReadLevels, KeepsAnArrayThatIsOfOneStep) {
  expect_kept("read_levels", R"(
    program p(T, n)
      input  f32 x[n]
      inout  f32 w[n]
      tape   f32 h_tape[T, n]
    )",
              R"(
    for t in 0..T:
      local f32 h[n]
      for i in 0..n:
        h[i] = x[i]*w[i]
        h_tape[t, i] = h[i]
      for i in 0..n:
        w[i] += h[(i + 1)%n]
    )");
}

TEST(ReadLevels, KeepsAnArrayThatASumReadsInEachOfItsTerms) {
  expect_kept("read_levels", R"(
    program p(T, n)
      input  f32 a[n, n]
      inout  f32 u[n]
      tape   f32 u_tape[T, n]
    )",
              R"(
    for t in 0..T:
      local f32 next[n]
      for i in 0..n:
        next[i] = 0
        for j in 0..n:
          next[i] += a[i, j]*u[j]
      for i in 0..n:
        u[i] = next[i]*u[i]
        u_tape[t, i] = u[i]
    )");
}

TEST(ReadLevels, KeepsAnArrayThatANestUpdatesTwice) {
  expect_kept("read_levels", R"(
    program p(T, n)
      inout  f32 u[n]
      tape   f32 u_tape[T, n]
    )",
              R"(
    for t in 0..T:
      for i in 0..n:
        u[i] = u[i]*u[i]
        u_tape[t, i] = u[i]
        u[i] += 1
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

// A condition for all pairs but those of equal indices keeps loops from lanes; half of the pairs are half the work.
TEST(UnreadElements, ComputesScalarsForNearlyAllIterations) {
  constexpr const char* pairs = R"(
    program p(n)
      input  f32 x[n]
      inout  f32 y[n]
    )";
  expect_kept("unread_elements", pairs,
              R"(
    for i in 0..n:
      for j in 0..n:
        local f32 r
        r = x[i] - x[j]
        if j < i || j > i:
          y[i] += r*r
    )");
  expect_pass("unread_elements", pairs,
              R"(
    for i in 0..n:
      for j in 0..n:
        local f32 r
        r = x[i] - x[j]
        if j < i:
          y[i] += r*r
    )",
              R"(
    for i in 0..n:
      for j in 0..n:
        local f32 r
        if i >= j + 1:
          r = x[i] - x[j]
        if j < i:
          y[i] += r*r
    )");
}

// A sum that gets no condition has to find something to add to.
TEST(UnreadElements, LeavesScalarsAloneThatASumInSeveralPiecesAddsTo) {
  expect_kept("unread_elements", R"(
    program p(n, v)
      input  f32 part[n]
      inout  f32 y[n]
    )",
              R"(
    for r in 0..n:
      local f32 d
      d = 0
      for b in 0..max(min(65536, v), 1):
        d += part[b]
      if r%2 == 0:
        y[r] += d
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
