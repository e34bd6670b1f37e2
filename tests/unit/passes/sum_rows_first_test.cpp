// Sums into one element that data choose, with loops that have no part in the choice.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

const char* const meshes = R"(
    program p(n, m, d)
      input  i32 key[n, d]
      input  f32 x[n, m]
      inout  f32 y[m, d]
      inout  f32 z[n]
      fact key in 0..m
  )";

const char* const triangles = R"(
    program p(n, m)
      input  f32 x[n, m]
      inout  f32 t[m*(m - 1)//2]
  )";

TEST(SumRowsFirst, TheElementGetsOneTerm) {
  expect_pass("sum_rows_first", meshes, R"(
    for f in 0..n:
      for i in 0..3:
        for j in 0..m:
          y[key[f, 0], 0] += x[f, j]*z[f]
          y[key[f, 1], 0] += x[f, j]
          y[key[f, 0], 0] += 1
    )",
              R"(
    for f in 0..n:
      local f32 y_row
      local f32 y_row_1
      y_row = 0
      y_row_1 = 0
      for i in 0..3:
        for j in 0..m:
          y_row += x[f, j]*z[f]
          y_row_1 += x[f, j]
          y_row += 1
      if 0 < m:
        y[key[f, 0], 0] += y_row
      if 0 < m:
        y[key[f, 1], 0] += y_row_1
    )");
}

/// The element exists where any of the sums runs, not just the first.
TEST(SumRowsFirst, AnyOfTheSumsMayBeTheOneThatAdds) {
  expect_pass("sum_rows_first", meshes, R"(
    for f in 0..n:
      for i in 0..3:
        for j in 0..m:
          y[key[f, 0], 0] += x[f, j]
        y[key[f, 0], 0] += z[f]
        for j in 0..m:
          y[key[f, 1], 0] += x[f, j]
        for j in 0..d:
          y[key[f, 1], 0] += z[f]
    )",
              R"(
    for f in 0..n:
      local f32 y_row
      local f32 y_row_1
      y_row = 0
      y_row_1 = 0
      for i in 0..3:
        for j in 0..m:
          y_row += x[f, j]
        y_row += z[f]
        for j in 0..m:
          y_row_1 += x[f, j]
        for j in 0..d:
          y_row_1 += z[f]
      y[key[f, 0], 0] += y_row
      if 0 < m || 0 < d:
        y[key[f, 1], 0] += y_row_1
    )");
}

TEST(SumRowsFirst, OnlyLoopsThatDoNotChoose) {
  expect_pass("sum_rows_first", meshes, R"(
    for f in 0..n:
      for k in 0..d:
        for j in 0..m:
          y[key[f, k], k] += x[f, j]
    )",
              R"(
    for f in 0..n:
      for k in 0..d:
        local f32 y_row
        y_row = 0
        for j in 0..m:
          y_row += x[f, j]
        if 0 < m:
          y[key[f, k], k] += y_row
    )");
}

TEST(SumRowsFirst, OnlyLoopsOfWhichItIsKnownThatTheyRun) {
  expect_pass("sum_rows_first", meshes, R"(
    for f in 0..n:
      for i in 0..m:
        for j in 0..i:
          y[key[f, 0], 0] += x[f, j]
    )",
              R"(
    for f in 0..n:
      for i in 0..m:
        local f32 y_row
        y_row = 0
        for j in 0..i:
          y_row += x[f, j]
        if 0 < i:
          y[key[f, 0], 0] += y_row
    )");
}

// A table of keys that serves many samples, as the relative positions of a window of attention do: a total for each of
// its entries, in place of a sort of all of their samples' terms.
TEST(SumRowsFirst, ATotalForEachIterationOfLoopsThatChoose) {
  expect_pass("sum_rows_first", meshes, R"(
    for b in 0..n:
      for j in 0..m:
        for k in 0..d:
          y[key[j, k], k] += x[b, j]
          y[key[j, k], k] += z[b]
    )",
              R"(
    local f32 y_row_all[m, d]
    for z0 in 0..m:
      for z1 in 0..d:
        y_row_all[z0, z1] = 0
    for b in 0..n:
      for j in 0..m:
        for k in 0..d:
          y_row_all[j, k] += x[b, j]
          y_row_all[j, k] += z[b]
    for j in 0..m:
      for k in 0..d:
        if 0 < n:
          y[key[j, k], k] += y_row_all[j, k]
    )");
}

// Packed triangles: an index that is no affine expression.
TEST(SumRowsFirst, ATotalForEachPlaceOfAPackedTriangle) {
  expect_pass("sum_rows_first", triangles, R"(
    for b in 0..n:
      for i in 0..m:
        for j in 0..i:
          t[i*(i - 1)//2 + j] += x[b, i]*x[b, j]
    )",
              R"(
    local f32 t_row_all[max(m - 1, 0), max(m - 1, 0)]
    for z0 in 0..max(m - 1, 0):
      for z1 in 0..max(m - 1, 0):
        t_row_all[z0, z1] = 0
    for b in 0..n:
      for i in 0..m:
        for j in 0..i:
          t_row_all[i - 1, j] += x[b, i]*x[b, j]
    for i in 0..m:
      for j in 0..i:
        if 0 < n:
          t[i*(i - 1)//2 + j] += t_row_all[i - 1, j]
    )");
}

TEST(SumRowsFirst, LeavesWhatItCannotSumUpBefore) {
  for (const char* const body : {
           R"(
    for f in 0..n:
      for j in 0..m:
        z[f] += x[f, j]
    )",  // known without data
           R"(
    for f in 0..n:
      for j in 0..m:
        if x[f, j] > 0:
          y[key[f, 0], 0] += x[f, j]
    )",  // the key may be none
           R"(
    for f in 0..n:
      for j in 0..m:
        y[key[f, 0], 0] += x[f, j]
        z[f] = y[j, 0]
    )",  // read in between
           R"(
    for f in 0..n:
      for j in 0..m:
        y[key[f, 0], 0] += x[f, j]
        y[j, 0] = 0
    )",  // changed otherwise
           R"(
    for f in 0..n:
      for j in 0..m:
        local i32 k
        k = key[f, j%d]
        y[k, 0] += x[f, j]
    )",  // chosen inside
           R"(
    for b in 0..3:
      for j in 0..m:
        y[key[j, 0], 0] += x[b, j]
    )",  // three terms for each key: as many totals would be no less
       })
    expect_kept("sum_rows_first", meshes, body);
}

}  // namespace
}  // namespace loopgrad::transforms
