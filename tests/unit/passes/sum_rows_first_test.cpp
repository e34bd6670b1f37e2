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
       })
    expect_kept("sum_rows_first", meshes, body);
}

}  // namespace
}  // namespace loopgrad::transforms
