// Passes of the mapping to a GPU, each alone.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

TEST(HoistParallelLoops, GivesEachThreadASumOfItsOwn) {
  expect_pass("hoist_parallel_loops", R"(
    program p(k, m, n)
      input  f32 d_c[m, n]
      input  f32 a[m, k]
      inout  f32 d_b[k, n]
    )",
              R"(
    parallel for b in 0..(k + 3)//4:
      for i in 0..m:
        parallel for l in 4*b..min(k, 4*b + 4):
          parallel for j in 0..n:
            d_b[l, j] += d_c[i, j]*a[i, l]
    )",
              R"(
    parallel for l in 0..k:
      parallel for j in 0..n:
        for i in 0..m:
          d_b[l, j] += d_c[i, j]*a[i, l]
    )");
}

TEST(HoistParallelLoops, JoinsAFillWithWhatFollows) {
  expect_pass("hoist_parallel_loops", R"(
    program p(k, n, c)
      input  f32 x[n, k*c]
      output f32 q[k, n]
    )",
              R"(
    parallel for b in 0..k:
      parallel for j in 0..n:
        q[b, j] = 0
      parallel for j in 0..n:
        for i in b*c..b*c + c:
          q[b, j] += x[j, i]
    )",
              R"(
    parallel for b in 0..k:
      parallel for j in 0..n:
        q[b, j] = 0
        for i in b*c..b*c + c:
          q[b, j] += x[j, i]
    )");
}

TEST(HoistParallelLoops, KeepsLoopsWhoseIterationsMeetInAnElement) {
  expect_kept("hoist_parallel_loops", R"(
    program p(m, n)
      inout  f32 x[n + m]
    )",
              R"(
    for i in 0..m:
      parallel for j in 0..n:
        x[j + i] += 1
    )");
}

TEST(SplitKernels, MakesPerfectNests) {
  expect_pass("split_kernels", R"(
    program p(n, m)
      input  f32 a[n, m, m]
      output f32 x[n, m, m]
      output f32 y[n, m]
      output f32 z[n, n]
    )",
              R"(
    parallel for i in 0..n:
      if i > 0:
        parallel for j in 0..m:
          parallel for k in 0..m:
            x[i, j, k] = a[i, j, k]
      else:
        parallel for j in 0..m:
          y[i, j] = a[i, j, 0]
      parallel for j in 0..i:
        z[i, j] = a[i, 0, 0]
    )",
              R"(
    parallel for i in 0..n:
      if i > 0:
        parallel for j in 0..m:
          parallel for k in 0..m:
            x[i, j, k] = a[i, j, k]
    parallel for i in 0..n:
      if !(i > 0):
        parallel for j in 0..m:
          y[i, j] = a[i, j, 0]
    parallel for i in 0..n:
      parallel for j in 0..i:
        z[i, j] = a[i, 0, 0]
    )");
}

TEST(SplitKernels, KeepsPartsThatShareOneLevelOfLoops) {
  expect_kept("split_kernels", R"(
    program p(n, m)
      input  f32 a[n, m]
      output f32 x[n, m]
      output f32 z[n, m]
    )",
              R"(
    parallel for i in 0..n:
      parallel for j in 0..m:
        x[i, j] = a[i, j]
      parallel for j in 0..m:
        z[i, j] = a[i, j]
    )");
}

TEST(JoinScalars, MovesAnAssignmentUpToTheLastOne) {
  expect_pass("join_scalars", R"(
    program p(n, blocks)
      input  f32 part[blocks]
      input  f32 e[n]
      input  f32 a[n]
      inout  f32 d[n]
    )",
              R"(
    for j in 0..n:
      for b in 0..blocks:
        d[j] += part[b]
      parallel for k in 0..j:
        d[k] += e[k]
      d[j] = d[j]/a[j]
      parallel for k in 0..j:
        d[k] += -(d[j]*a[k])
    )",
              R"(
    for j in 0..n:
      for b in 0..blocks:
        d[j] += part[b]
      d[j] = d[j]/a[j]
      parallel for k in 0..j:
        d[k] += e[k]
      parallel for k in 0..j:
        d[k] += -(d[j]*a[k])
    )");
}

TEST(JoinScalars, KeepsAnAssignmentOfWhatANestBetweenChanges) {
  expect_kept("join_scalars", R"(
    program p(n, blocks)
      input  f32 part[blocks]
      input  f32 a[n]
      inout  f32 d[n]
    )",
              R"(
    for j in 0..n:
      for b in 0..blocks:
        d[j] += part[b]
      parallel for k in 0..j + 1:
        d[k] += a[k]
      d[j] = d[j]/a[j]
    )");
}

TEST(UnrollShortLoops, LoadsWhatTheIterationsShareOnce) {
  expect_pass("unroll_short_loops", R"(
    program p(n)
      input  f32 u0[n]
      output f32 u[2, n + 1]
    )",
              R"(
    parallel for t in 0..2:
      parallel for i in 0..n:
        u[t, i + 1] = u0[i]
    )",
              R"(
    parallel for i in 0..n:
      u[0, i + 1] = u0[i]
      u[1, i + 1] = u0[i]
    )");
}

TEST(UnrollShortLoops, KeepsLoopsAlongNeighbours) {
  expect_kept("unroll_short_loops", R"(
    program p(n)
      input  f32 u0[n, 2]
      output f32 u[n, 2]
    )",
              R"(
    parallel for i in 0..n:
      parallel for t in 0..2:
        u[i, t] = u0[i, t]
    )");
}

TEST(FuseNests, ReadsWhatBothNestsReadOnce) {
  expect_pass("fuse_nests", R"(
    program p(T, n, m)
      input  f32 u[n, m]
      inout  f32 v[T + 1, n, m]
      inout  f32 g[n, m]
    )",
              R"(
    for t in 0..T reversed:
      parallel for i in 0..n:
        parallel for j in 0..m:
          v[t, i, j] = v[t + 1, i, j]*0.5
      parallel for i in 0..n:
        parallel for j in 0..m:
          g[i, j] += v[t + 1, i, j]*u[i, j]
    )",
              R"(
    for t in 0..T reversed:
      parallel for i in 0..n:
        parallel for j in 0..m:
          v[t, i, j] = v[t + 1, i, j]*0.5
          g[i, j] += v[t + 1, i, j]*u[i, j]
    )");
}

TEST(FuseNests, KeepsANestThatReadsWhatOtherIterationsChanged) {
  expect_kept("fuse_nests", R"(
    program p(n)
      input  f32 u[n]
      output f32 v[n]
      output f32 g[n]
    )",
              R"(
    parallel for i in 0..n:
      v[i] = u[i]
    parallel for i in 0..n:
      g[i] = v[n - 1 - i]
    )");
}

// Which the indices alone do not show: a triangle, of which the second nest reads the rows' own diagonal elements, and
// rows that an array chooses, each once.
TEST(FuseNests, AsksTheModelWhatIterationsSee) {
  expect_pass("fuse_nests", R"(
    program p(n)
      input  f32 x[n, n]
      input  i32 perm[n]
      inout  f32 v[n, n]
      output f32 y[n, n]
      fact   perm in 0..n
      fact   perm injective
    )",
              R"(
    parallel for i in 0..n:
      parallel for j in i..n:
        v[perm[i], j - i] = x[i, j]
    parallel for k in 0..n:
      parallel for l in k..n:
        y[k, l] = v[perm[k], l - k]*x[k, l]
    )",
              R"(
    parallel for i in 0..n:
      parallel for j in i..n:
        v[perm[i], j - i] = x[i, j]
        y[i, j] = v[perm[i], j - i]*x[i, j]
    )");
}

TEST(KeepLastElements, KeepsWhatNobodyElseReadsInAScalar) {
  expect_pass("keep_last_elements", R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
    )",
              R"(
    local f32 v[3, n]
    parallel for i in 0..n:
      v[2, i] = x[i]
      v[1, i] = x[i]*2
    parallel for i in 0..n:
      v[0, i] = -v[2, i]
      y[i] = v[0, i] + v[1, i]
    )",
              R"(
    local f32 v[3, n]
    parallel for i in 0..n:
      v[2, i] = x[i]
      v[1, i] = x[i]*2
    parallel for i in 0..n:
      local f32 v_kept
      v_kept = -v[2, i]
      y[i] = v_kept + v[1, i]
    )");
}

TEST(KeepLastElements, KeepsWhatMayHaveNoValueWhereThatCannotBeAsked) {
  expect_kept("keep_last_elements", R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
    )",
              R"(
    local f32 v[n]
    parallel for i in 1..n:
      v[i] = x[i]
    parallel for i in 0..n:
      local f32 a
      a = f32(i)
      y[i] = select(a > 0, v[i], 0.5)
      v[i] = a
      y[i] += v[i]
    )");
}

TEST(KeepLastElements, StoresWhatTheCallerGets) {
  expect_kept("keep_last_elements", R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
      output f32 v[n]
    )",
              R"(
    parallel for i in 0..n:
      v[i] = -x[i]
      y[i] = v[i] + x[i]
    )");
}

TEST(ForwardElements, KeepsWhatLoopsReadInAScalar) {
  expect_pass("forward_elements", R"(
    program p(n)
      input  f32 a[n]
      inout  f32 d[n, n]
    )",
              R"(
    parallel for i in 0..n:
      local f32 seed
      seed = d[i, i]
      d[i, i] = seed/a[i]
      parallel for k in 0..i:
        d[i, k] += -(d[i, i]*a[k])
    )",
              R"(
    parallel for i in 0..n:
      local f32 seed
      local f32 d_now
      d_now = d[i, i]
      seed = d_now
      d_now = seed/a[i]
      parallel for k in 0..i:
        d[i, k] += -(d_now*a[k])
      d[i, i] = d_now
    )");
}

TEST(ForwardElements, LooksIntoLoopsAroundOthers) {
  expect_pass("forward_elements", R"(
    program p(n)
      input  f32 a[n]
      inout  f32 d[n]
      inout  f32 y[n, n]
    )",
              R"(
    parallel for b in 0..n:
      for i in 0..n:
        d[b] = a[i]
        for k in 0..n:
          y[b, k] += d[b]
    )",
              R"(
    parallel for b in 0..n:
      for i in 0..n:
        local f32 d_now
        d_now = a[i]
        for k in 0..n:
          y[b, k] += d_now
        d[b] = d_now
    )");
}

TEST(ForwardElements, KeepsAnElementThatTheLoopChanges) {
  expect_kept("forward_elements", R"(
    program p(n)
      input  f32 a[n]
      inout  f32 d[n, n]
    )",
              R"(
    parallel for i in 0..n:
      local f32 seed
      seed = d[i, i]
      d[i, i] = seed/a[i]
      for k in 0..i + 1:
        d[i, k] += -(d[i, i]*a[k])
    )");
}

TEST(NameConstants, ComputesOnceWhatTheLaunchHasInCommon) {
  expect_pass("name_constants", R"(
    program p(n)
      inout  f32 y[n]
    )",
              R"(
    grid for b in 0..max(n//4, 1):
      threads for t in 0..32:
        for i in b*(n//max(n//4, 1)) + t..min(b*(n//max(n//4, 1)) + t + 1, (b + 1)*(n//max(n//4, 1))):
          y[i] = 0
    )",
              R"(
    for known in n//max(n//4, 1)..n//max(n//4, 1) + 1:
      for known_1 in max(n//4, 1)..max(n//4, 1) + 1:
        grid for b in 0..known_1:
          threads for t in 0..32:
            for i in b*known + t..min(b*known + t + 1, (b + 1)*known):
              y[i] = 0
    )");
}

TEST(NameConstants, KeepsWhatAThreadComputesWithoutDividing) {
  expect_kept("name_constants", R"(
    program p(n)
      inout  f32 y[n]
    )",
              R"(
    grid for b in 0..n:
      threads for t in 0..32:
        for i in b*2 + t..min(b*2 + t + 1, n):
          y[i] = 0
    )");
}

/// A kernel is given numbers of the width of its indices, which may be 32 bits: what a record holds does not fit.
TEST(NameConstants, KeepsNumbersThatNeedSixtyFourBits) {
  expect_kept("name_constants", R"(
    program p(n)
      inout  i64 y[n]
    )",
              R"(
    grid for b in 0..n:
      threads for t in 0..32:
        y[b] max= (atomic) select(1 >= n, 1, -9223372036854775807)
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
