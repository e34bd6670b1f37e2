// Passes on bounds, parallel loops, searches and choices, each alone.
#include "tests/unit/passes/expect_pass.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

TEST(KnownBounds, LooksThroughScalarsInBounds) {
  expect_pass("known_bounds", R"(
    program p(n)
      input  i32 ptr[n + 1]
      input  f32 x[n]
      output f32 y[n]
      fact   ptr csr pointer of n
    )",
              R"(
    for v in 0..n:
      local i64 first
      first = ptr[v]
      y[v] = 0
      for e in first..ptr[v + 1]:
        y[v] += x[e]
    )",
              R"(
    for v in 0..n:
      local i64 first
      first = ptr[v]
      y[v] = 0
      for e in ptr[v]..ptr[v + 1]:
        y[v] += x[e]
    )");
}

TEST(KnownBounds, KeepsAScalarOfDataThatTheProgramChanges) {
  expect_kept("known_bounds", R"(
    program p(n)
      inout  i32 ptr[n + 1]
      input  f32 x[n]
      output f32 y[n]
      fact   ptr in 0..n + 1
    )",
              R"(
    for v in 0..n:
      local i64 first
      first = ptr[v]
      ptr[v] = 0
      y[v] = 0
      for e in first..ptr[v + 1]:
        y[v] += x[e]
    )");
}

TEST(ParallelizeLoops, MarksLoopsWithoutConflictsAndSaysWhichConflict) {
  expect_pass("parallelize_loops", R"(
    program p(n)
      input  f32 x[n]
      inout  f32 y[n]
      inout  f32 z[n]
    )",
              R"(
    for i in 0..n:
      y[i] = x[i]*2
    for i in 1..n:
      z[i] = z[i - 1]*x[i]
    )",
              R"(
    parallel for i in 0..n:
      y[i] = x[i]*2
    for i in 1..n:
      z[i] = z[i - 1]*x[i]
    )",
              "z[i] at text:8 and z[i - 1] at text:8 may be the same element, as for i = 1 and i = 2");
}

TEST(ParallelizeLoops, MarksALoopAroundSumsOfItsOwn) {
  expect_pass("parallelize_loops", R"(
    program p(n, k)
      input  f32 x[n + k - 1]
      input  f32 w[k]
      output f32 y[n]
    )",
              R"(
    for i in 0..n:
      y[i] = 0
      for j in 0..k:
        y[i] += x[i + j]*w[j]
    )",
              R"(
    parallel for i in 0..n:
      y[i] = 0
      for j in 0..k:
        y[i] += x[i + j]*w[j]
    )");
}

// A cut loop evaluates its bounds again, which the iterations before the cut may have changed.
TEST(SplitLoopsAtGuards, KeepsALoopThatChangesItsBounds) {
  const char* const declarations = R"(
    program p(n)
      input  f32 x[n]
      inout  i64 last[n]
      inout  f32 y[n]
      fact   last in 0..n + 1
    )";
  expect_kept("split_loops_at_guards", declarations, R"(
    for i in 0..last[0]:
      y[i] = 2*x[i]
      last[0] = 0
      if i >= 1:
        y[i] += x[i - 1]
    )");
  expect_pass("split_loops_at_guards", declarations, R"(
    for i in 0..last[0]:
      y[i] = 2*x[i]
      if i >= 1:
        y[i] += x[i - 1]
    )",
              R"(
    for i in 0..min(1, last[0]):
      y[i] = 2*x[i]
      if i >= 1:
        y[i] += x[i - 1]
    for i in min(1, last[0])..max(min(1, last[0]), last[0]):
      y[i] = 2*x[i]
      y[i] += x[i - 1]
    for i in max(min(1, last[0]), last[0])..last[0]:
      y[i] = 2*x[i]
      if i >= 1:
        y[i] += x[i - 1]
    )");
}

TEST(SearchLoops, FindsTheIterationThatTakesAll) {
  expect_pass("search_loops", R"(
    program p(n)
      input  f32 x[n]
      input  f32 largest
      inout  f32 d_x[n]
      inout  f32 d_largest
    )",
              R"(
    for c in 1..n reversed:
      if x[c] == largest:
        d_x[c] += d_largest
        d_largest = 0
    )",
              R"(
    local i64 match
    match = 0
    for c in 1..n:
      match max= select(x[c] == largest, c, 0)
    if match >= 1:
      d_x[match] += d_largest
      d_largest = 0
    )");
}

// What is computed in the loop decides, and all else that an iteration does is a multiple of what it takes.
constexpr const char* computed = R"(
    program p(n)
      input  f32 x[n]
      input  f32 largest
      inout  f32 d_x[n]
      inout  f32 d_s
      inout  f32 d_largest
    )";

TEST(SearchLoops, LeavesOneIterationOfALoopThatComputes) {
  expect_pass("search_loops", computed, R"(
    for e in 0..n reversed:
      local f32 v
      v = exp(x[e])
      local f32 d_v
      local f32 d_w
      d_v = 0
      if v == largest:
        d_v += d_largest
        d_largest = 0
      d_w = -d_v
      for k in 0..2:
        d_w += d_v*x[e]
      d_s += d_w/v
      d_x[e] += d_w*v
    )",
              R"(
    local i64 match
    match = -1
    for e in 0..n:
      local f32 v
      v = exp(x[e])
      match max= select(v == largest, e, -1)
    if match >= 0:
      local f32 v
      v = exp(x[match])
      local f32 d_v
      local f32 d_w
      d_v = 0
      d_v += d_largest
      d_largest = 0
      d_w = -d_v
      for k in 0..2:
        d_w += d_v*x[match]
      d_s += d_w/v
      d_x[match] += d_w*v
    )");
}

TEST(SearchLoops, KeepsALoopThatAddsWithoutTaking) {
  for (const char* more : {"d_x[e] += d_v + v", "d_x[e] = d_v", "d_x[e] += d_v*d_largest", "d_v += v\n      d_s += d_v",
                           "d_v = 1 + d_v\n      d_s += d_v", "d_s max= d_v"})
    expect_kept("search_loops", computed,
                fmt::format(R"(
    for e in 0..n reversed:
      local f32 v
      v = exp(x[e])
      local f32 d_v
      d_v = 0
      if v == largest:
        d_v += d_largest
        d_largest = 0
      {}
    )",
                            more)
                    .c_str());
}

TEST(SearchLoops, KeepsALoopThatChangesWhatDecides) {
  expect_kept("search_loops", computed, R"(
    for e in 0..n reversed:
      local f32 v
      v = exp(x[e]) + d_s
      local f32 d_v
      d_v = 0
      if v == largest:
        d_v += d_largest
        d_largest = 0
      d_s += d_v*x[e]
    )");
}

TEST(SharedSearches, AddToWhatTheyFound) {
  expect_pass("shared_searches", R"(
    program p(n, m)
      input  f32 a[n]
      input  f32 b[m]
      input  f32 least[n]
      inout  f32 d_least[n]
      inout  f32 d_b[m]
    )",
              R"(
    for i in 0..n:
      for j in 0..m reversed:
        if a[i] - b[j] == least[i]:
          d_b[j] += -(d_least[i]*b[j]) + d_least[i]/a[i]
          d_least[i] = 0
    )",
              R"(
    for i in 0..n:
      local i64 match
      match = -1
      for j in 0..m:
        match max= select(a[i] - b[j] == least[i], j, -1)
      if match >= 0:
        d_b[match] += -(d_least[i]*b[match]) + d_least[i]/a[i]
        d_least[i] = 0
    )");
}

TEST(SharedSearches, LeaveRowsAlone) {
  expect_kept("shared_searches", R"(
    program p(n, m)
      input  f32 a[n, m]
      input  f32 least[n]
      inout  f32 d_least[n]
      inout  f32 d_a[n, m]
    )",
              R"(
    for i in 0..n:
      for j in 0..m reversed:
        if a[i, j] == least[i]:
          d_a[i, j] += d_least[i]
          d_least[i] = 0
    )");
}

TEST(SearchLoops, KeepsALoopThatAddsWhatDoesNotVanish) {
  expect_kept("search_loops", R"(
    program p(n)
      input  f32 x[n]
      input  f32 largest
      inout  f32 d_x[n]
      inout  f32 d_largest
    )",
              R"(
    for c in 0..n reversed:
      if x[c] == largest:
        d_x[c] += d_largest + x[c]
        d_largest = 0
    )");
}

TEST(SearchLoops, KeepsALoopInWhichTheNextOneAddsMore) {
  expect_kept("search_loops", R"(
    program p(n)
      input  f32 x[n]
      input  f32 largest
      inout  f32 d_x[n]
      inout  f32 d_largest
    )",
              R"(
    for c in 1..n reversed:
      if x[c] == largest:
        d_x[c] += d_largest
        d_largest = 1
    )");
}

TEST(SearchLoops, PutsASearchFirst) {
  expect_pass("search_loops", R"(
    program p(n)
      input  f32 s[n]
      input  f32 largest
      inout  f32 d_s[n]
      inout  f32 d_largest
      inout  f32 d_t
    )",
              R"(
    for e in 0..n reversed:
      if s[e] == largest:
        d_s[e] += d_largest
        d_largest = 0
      d_t += d_s[e]
    )",
              R"(
    local i64 match:
      match = -1
      for e in 0..n:
        match max= select(s[e] == largest, e, -1)
      if match >= 0:
        d_s[match] += d_largest
        d_largest = 0
    for e in 0..n reversed:
      d_t += d_s[e]
    )");
}

// The scores of an attention are scaled before their maximum is taken, so their adjoints are after it.
TEST(SearchLoops, PutsASearchBeforeWhatChangesItsElements) {
  expect_pass("search_loops", R"(
    program p(n)
      input  f32 s[n]
      input  f32 largest
      inout  f32 d_s[n]
      inout  f32 d_largest
    )",
              R"(
    for e in 0..n reversed:
      if s[e] == largest:
        d_s[e] += d_largest
        d_largest = 0
      d_s[e] = d_s[e]*0.125
    )",
              R"(
    local i64 match:
      match = -1
      for e in 0..n:
        match max= select(s[e] == largest, e, -1)
      if match >= 0:
        d_s[match] += d_largest
        d_largest = 0
    for e in 0..n reversed:
      d_s[e] = d_s[e]*0.125
    )");
}

TEST(SearchLoops, KeepsASearchWhoseElementsOtherIterationsChange) {
  expect_kept("search_loops", R"(
    program p(n)
      input  f32 s[n]
      input  f32 largest
      inout  f32 d_s[n + 1]
      inout  f32 d_largest
    )",
              R"(
    for e in 0..n reversed:
      if s[e] == largest:
        d_s[e] += d_largest
        d_largest = 0
      d_s[e + 1] = d_s[e]*0.125
    )");
}

TEST(SearchLoops, KeepsASearchWhoseResultTheOthersRead) {
  expect_kept("search_loops", R"(
    program p(n)
      input  f32 s[n]
      input  f32 largest
      inout  f32 d_s[n]
      inout  f32 d_largest
      inout  f32 d_t
    )",
              R"(
    for e in 0..n reversed:
      if s[e] == largest:
        d_s[e] += d_largest
        d_largest = 0
      d_t += d_largest
    )");
}

TEST(UnswitchRows, AsksBeforeTheRow) {
  expect_pass("unswitch_rows", R"(
    program p(T, m)
      input  f32 x0[m]
      inout  f32 x[T + 1, m]
    )",
              R"(
    for t in 0..T:
      for j in 0..m:
        x[t + 1, j] = select(t == 0, x0[j], x[t, j])
    )",
              R"(
    for t in 0..T:
      if t == 0:
        for j in 0..m:
          x[t + 1, j] = x0[j]
      else:
        for j in 0..m:
          x[t + 1, j] = x[t, j]
    )");
}

TEST(UnswitchRows, AsksAboutSizesOnce) {
  expect_pass("unswitch_rows", R"(
    program p(n, m)
      input  f32 x[m]
      inout  f32 f[m]
      inout  f32 g[m]
    )",
              R"(
    for j in 0..m:
      if n >= 1:
        f[j] = x[j]
      if m >= 2:
        g[j] = x[j]
    )",
              R"(
    if n >= 1 && m >= 2:
      for j in 0..m:
        f[j] = x[j]
        g[j] = x[j]
    else:
      for j in 0..m:
        if n >= 1:
          f[j] = x[j]
        if m >= 2:
          g[j] = x[j]
    )");
  expect_kept("unswitch_rows", R"(
    program p(n, m)
      input  f32 x[m]
      inout  f32 f[m]
    )",
              R"(
    for i in 0..n:
      for j in 0..m:
        f[j] = select(i == 0, x[j], 1)
        f[j] += select(i == 1, x[j], 2)
    )");
}

TEST(UnswitchRows, KeepsConditionsThatReadData) {
  expect_kept("unswitch_rows", R"(
    program p(m)
      input  f32 x0[m]
      input  f32 a[m]
      output f32 y[m]
    )",
              R"(
    for j in 0..m:
      y[j] = select(a[0] > 0, x0[j], a[j])
    )");
}

TEST(UnswitchKernels, AsksBeforeTheLaunch) {
  expect_pass("unswitch_kernels", R"(
    program p(T, m)
      input  f32 x0[m]
      inout  f32 x[T + 1, m]
    )",
              R"(
    for t in 0..T:
      parallel for j in 0..m:
        x[t + 1, j] = select(t == 0, x0[j], x[t, j])
    )",
              R"(
    for t in 0..T:
      if t == 0:
        parallel for j in 0..m:
          x[t + 1, j] = x0[j]
      else:
        parallel for j in 0..m:
          x[t + 1, j] = x[t, j]
    )");
}

TEST(UnswitchKernels, KeepsConditionsOfThreads) {
  expect_kept("unswitch_kernels", R"(
    program p(T, m)
      input  f32 x0[m]
      inout  f32 x[T + 1, m]
    )",
              R"(
    for t in 0..T:
      parallel for j in 0..m:
        x[t + 1, j] = select(j == 0, x0[j], x[t, j])
    )");
}

TEST(UnswitchKernels, KeepsConditionsOnTripsOfAWhileLoop) {
  expect_kept("unswitch_kernels", R"(
    program p(m)
      input  f32 x0[m]
      inout  f32 x[m]
    )",
              R"(
    parallel for j in 0..m:
      for t in 0..4 while x[j] < 1:
        x[j] = x[j] + select(t > 0, x0[j], 1)
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
