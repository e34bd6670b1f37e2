// Rows of CSR structures, however a program counts their entries.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

const char* const rows = R"(
    program p(n, e, m)
      input  i32 ptr[n + 1]
      input  i32 free[n + 1]
      input  f32 x[e]
      inout  f32 y[e]
      inout  f32 z[n]
      fact ptr csr pointer of e
  )";

TEST(NumberEntries, PlacesInARowBecomeNumbersOfEntries) {
  expect_pass("number_entries", rows, R"(
    for r in 0..n:
      for k in 1..i64(ptr[r + 1] - ptr[r]):
        y[ptr[r] + k] += x[ptr[r] + k - 1]*f32(k)
        for j in k..i64(ptr[r + 1] - ptr[r]):
          z[r] += x[ptr[r] + j]
    )",
              R"(
    for r in 0..n:
      for k in ptr[r] + 1..ptr[r + 1]:
        y[k] += x[k - 1]*f32(k - ptr[r])
        for j in k..ptr[r + 1]:
          z[r] += x[j]
    )");
}

TEST(NumberEntries, LocalsThatHaveARowKeepTheirPlaces) {
  expect_kept("number_entries", rows, R"(
    for r in 0..n:
      local f32 s[e]
      for k in 0..i64(ptr[r + 1] - ptr[r]):
        s[k] = x[ptr[r] + k]
      for k in 0..i64(ptr[r + 1] - ptr[r]):
        y[ptr[r] + k] = s[k]
    )");
}

TEST(NumberEntries, OnlyPointersThatAreKnownToRiseHaveRows) {
  expect_kept("number_entries", rows, R"(
    for r in 0..n:
      for k in 0..i64(free[r + 1] - free[r]):
        z[r] += x[free[r] + k]
    )");
}

// Entries that are counted so are still known to be those of one row.
TEST(NumberEntries, RowsWithLocalsAreParallel) {
  expect_pass("parallelize_loops", rows, R"(
    for r in 0..n:
      for k in 0..i64(ptr[r + 1] - ptr[r]):
        y[ptr[r] + k] = x[ptr[r] + k]*2
      for k in 1..i64(ptr[r + 1] - ptr[r]):
        y[ptr[r] + k] += y[ptr[r] + k - 1]
    )",
              R"(
    parallel for r in 0..n:
      parallel for k in 0..i64(ptr[r + 1] - ptr[r]):
        y[ptr[r] + k] = x[ptr[r] + k]*2
      for k in 1..i64(ptr[r + 1] - ptr[r]):
        y[ptr[r] + k] += y[ptr[r] + k - 1]
    )");
}

// Pairs of entries of a row.
TEST(NumberEntries, TheRestOfARowIsOfTheRow) {
  for (const char* const rest : {"a + 1..ptr[r + 1]", "ptr[r]..a", "ptr[r]..a + 1"}) {
    const std::string pairs = std::string("for r in 0..n:\n  for a in ptr[r]..ptr[r + 1]:\n    for b in ") + rest +
                              ":\n      y[a] += x[b]\n      y[b] += x[a]\n";
    expect_pass("parallelize_loops", rows, pairs, "parallel " + pairs);
  }
  expect_pass("parallelize_loops", rows, R"(
    for r in 0..n:
      for a in ptr[r]..ptr[r + 1]:
        for b in a..min(ptr[r + 1] + 1, e):
          y[b] += x[a]
    )",
              R"(
    for r in 0..n:
      for a in ptr[r]..ptr[r + 1]:
        parallel for b in a..min(ptr[r + 1] + 1, e):
          y[b] += x[a]
    )");
}

TEST(NumberEntries, WhatLeavesARowKeepsThemInOrder) {
  expect_kept("parallelize_loops", rows, R"(
    for r in 0..n:
      for k in 0..i64(ptr[r + 1] - ptr[r]):
        y[ptr[r] + k + 1] += y[ptr[r] + k]
    )");
}

TEST(NarrowFills, ArraysAreFilledWhereARowUsesThem) {
  expect_pass("narrow_fills", rows, R"(
    for r in 0..n:
      local f32 s[e, 3]
      for i in 0..e:
        for j in 0..3:
          s[i, j] = 0
      for k in ptr[r]..ptr[r + 1]:
        for j in 0..3:
          s[k, j] += x[k]
      for k in ptr[r]..ptr[r + 1]:
        for j in 0..3:
          z[r] += s[k, j]
    )",
              R"(
    for r in 0..n:
      local f32 s[e, 3]
      for i in ptr[r]..ptr[r + 1]:
        for j in 0..3:
          s[i, j] = 0
      for k in ptr[r]..ptr[r + 1]:
        for j in 0..3:
          s[k, j] += x[k]
      for k in ptr[r]..ptr[r + 1]:
        for j in 0..3:
          z[r] += s[k, j]
    )");
}

TEST(NarrowFills, OtherUsesNeedAllOfAnArray) {
  expect_kept("narrow_fills", rows, R"(
    for r in 0..n:
      local f32 s[e]
      for i in 0..e:
        s[i] = 0
      for k in ptr[r]..ptr[r + 1]:
        s[k] += x[k]
      z[r] += s[0]
    )");
  expect_kept("narrow_fills", rows, R"(
    for r in 0..n:
      local f32 s[e]
      for i in 0..e:
        s[i] = 0
      for q in 0..n:
        for k in ptr[q]..ptr[q + 1]:
          s[k] += x[k]
      for k in 0..e:
        z[r] += s[k]
    )");
}

// Loops that begin where data say, but in no row.
TEST(CountFromZero, ElementsBecomeOnesThatDataChoose) {
  const char* const spans = R"(
    program p(n, m)
      input  i32 start[n]
      input  i32 width[n]
      input  f32 x[n]
      inout  f32 y[m + 10]
      fact start in 0..m
      fact width in 0..10
  )";
  expect_pass("count_from_zero", spans, R"(
    for s in 0..n:
      for t in start[s]..start[s] + width[s]:
        y[t] += x[s]
    )",
              R"(
    for s in 0..n:
      for t in 0..width[s] (at most 9):
        y[start[s] + t] += x[s]
    )",
              "", gpu_machine());
}

// Entries of rows that data choose are summed by several iterations, those of the loop's own row by one.
TEST(CountFromZero, RowsThatDataChoose) {
  const char* const lists = R"(
    program p(n, m, e)
      input  i64 ptr[n + 1]
      input  i32 row[m]
      input  f32 x[m]
      inout  f32 y[e]
      fact ptr csr pointer of e
      fact row in 0..n
  )";
  expect_pass("count_from_zero", lists, R"(
    for s in 0..m:
      for t in ptr[row[s]]..ptr[row[s] + 1]:
        y[t] += x[s]
    )",
              R"(
    for s in 0..m:
      for t in 0..ptr[row[s] + 1] - ptr[row[s]] (at most max(e, 0)):
        y[ptr[row[s]] + t] += x[s]
    )",
              "", gpu_machine());
  expect_kept("count_from_zero", lists, R"(
    for s in 0..n:
      for t in ptr[s]..ptr[s + 1]:
        y[t] += x[s]
    )");
}

// Which rows look up which is affine: each entry is summed by one iteration.
TEST(GatherEntries, RowsThatLookUpTheirNeighboursChangePlaces) {
  expect_pass("restructure_sums", rows, R"(
    for a in 0..n:
      for i in ptr[a]..ptr[a + 1]:
        for c in max(a - 1, 0)..min(a + 2, n):
          for j in ptr[c]..ptr[c + 1]:
            y[j] += x[i]*x[j]
    )",
              R"(
    if e >= 1:
      for c in 0..n:
        for j in ptr[c]..ptr[c + 1]:
          for a in max(0, c - 1)..min(n, c + 2):
            for i in ptr[a]..ptr[a + 1]:
              y[j] += x[i]*x[j]
    )",
              "", gpu_machine());
}

}  // namespace
}  // namespace loopgrad::transforms
