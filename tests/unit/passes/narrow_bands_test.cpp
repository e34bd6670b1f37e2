// Parallel loops over bands are counted from where these begin.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

TEST(NarrowBands, CountsFromWhereABandBegins) {
  expect_pass("narrow_bands", R"(
    program p(n, r)
      input  f32 x[n]
      inout  f32 y[n, n]
    )",
              R"(
    parallel for i in 0..n:
      parallel for j in max(i - r, 0)..min(i + r + 1, n):
        y[i, j] = x[j]
    )",
              R"(
    parallel for i in 0..n:
      parallel for j in 0..max(min(2*r + 1, n), 0):
        if max(i - r, 0) + j < min(i + r + 1, n):
          y[i, max(i - r, 0) + j] = x[max(i - r, 0) + j]
    )");
}

TEST(NarrowBands, TheSharesOfBlocksAreBands) {
  expect_pass("narrow_bands", R"(
    program p(n, m, b)
      input  f32 x[n, m]
      inout  f32 y[b, n]
    )",
              R"(
    parallel for block in 0..b:
      parallel for i in block*(n//max(b, 1))..min(block*(n//max(b, 1)) + n//max(b, 1), n):
        for j in 0..m:
          y[block, i] += x[i, j]
    )",
              R"(
    parallel for block in 0..b:
      parallel for i in 0..max(n//max(b, 1), 0):
        if block*(n//max(b, 1)) + i < min(block*(n//max(b, 1)) + n//max(b, 1), n):
          for j in 0..m:
            y[block, block*(n//max(b, 1)) + i] += x[block*(n//max(b, 1)) + i, j]
    )");
}

TEST(NarrowBands, KeepsTrianglesAndTheDiagonalsOfRectangles) {
  expect_kept("narrow_bands", R"(
    program p(n, m)
      inout  f32 y[n, m]
    )",
              R"(
    parallel for i in 0..n:
      parallel for j in max(0, 1 - i)..min(m, m + n - i - 2):
        y[i, j] = 1
    )");
  expect_kept("narrow_bands", R"(
    program p(n)
      inout  f32 y[n, n]
    )",
              R"(
    parallel for i in 0..n:
      parallel for j in i + 1..n:
        y[i, j] = 1
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
