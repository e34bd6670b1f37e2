// What loops overwrite is read from a copy: see transforms/storage/read_before.h.
#include "tests/unit/passes/recurrences.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

constexpr const char* read_and_written = R"(
    program p(n, m, k)
      input  f32 c[n]
      input  i32 at[n]
      inout  f32 a[n + k + 1]
      inout  f32 b[n + k + 1]
      inout  f32 u[n + 1, m + 1]
      inout  f32 y[n]
      tape   f32 a_initial[n + k + 1]
      tape   f32 u_initial[n + 1, m + 1]
    )";

/// Whose loops are long enough, and of which the rows of a nest keep only a part busy.
Machine machine_for_short_loops() {
  Machine machine = gpu_machine();
  machine.least_scanned = 2;
  return machine;
}

void expect_freed(const std::string& before, const std::string& after) {
  expect_pass("read_before", read_and_written, before, after, "need not wait for each other",
              machine_for_short_loops());
}

void expect_stays(const std::string& body) {
  expect_kept("read_before", read_and_written, body, "", machine_for_short_loops());
}

TEST(ReadBefore, ALoopThatReadsAhead) {
  expect_freed(R"(
    for i in 0..n:
      a[i] = a[i + 1]*c[i]
  )",
               R"(
    local f32 a_before[n]
    for z0 in 0..n:
      a_before[z0] = a[z0 + 1]
    for i in 0..n:
      a[i] = a_before[i]*c[i]
  )");
  expect_freed(R"(
    for i in 0..n:
      a[i] += a[i + k + 1]
  )",
               R"(
    local f32 a_before[n]
    for z0 in 0..n:
      a_before[z0] = a[z0 + k + 1]
    for i in 0..n:
      a[i] += a_before[i]
  )");
}

TEST(ReadBefore, BackwardsItIsWhatIsBehind) {
  expect_freed(R"(
    for i in 1..n reversed:
      a[i] = a[i - 1]*c[i]
  )",
               R"(
    local f32 a_before[max(n - 1, 0)]
    for z0 in 0..n - 1:
      a_before[z0] = a[z0]
    for i in 1..n reversed:
      a[i] = a_before[i - 1]*c[i]
  )");
  expect_stays(R"(
    for i in 1..n:
      a[i] = a[i - 1]*c[i]
  )");
}

TEST(ReadBefore, OneCopyServesReadsNearby) {
  expect_freed(R"(
    for t in 0..k:
      for i in 0..n - 1:
        if a[i + 2] > 0:
          a[i] = a[i]*c[i]*(a[i + 1] - a[i])
  )",
               R"(
    for t in 0..k:
      local f32 a_before[n]
      for z0 in 0..n:
        a_before[z0] = a[z0 + 1]
      for i in 0..n - 1:
        if a_before[i + 1] > 0:
          a[i] = a[i]*c[i]*(a_before[i] - a[i])
  )");
}

TEST(ReadBefore, ATapeWithAllOfItIsTheCopy) {
  expect_freed(R"(
    for z in 0..n + k + 1:
      a_initial[z] = a[z]
    for i in 0..n:
      a[i] = a[i + 1]*c[i]
  )",
               R"(
    for z in 0..n + k + 1:
      a_initial[z] = a[z]
    for i in 0..n:
      a[i] = a_initial[i + 1]*c[i]
  )");
  // Also for reads of a diagonal, of which no copy is made.
  expect_freed(R"(
    for z0 in 0..n + 1:
      for z1 in 0..m + 1:
        u_initial[z0, z1] = u[z0, z1]
    for i in 0..min(n, m):
      u[i, i] = u[i + 1, i + 1]
  )",
               R"(
    for z0 in 0..n + 1:
      for z1 in 0..m + 1:
        u_initial[z0, z1] = u[z0, z1]
    for i in 0..min(n, m):
      u[i, i] = u_initial[i + 1, i + 1]
  )");
  expect_freed(R"(
    for z in 0..n + k + 1:
      a_initial[z] = a[z]
    a[0] = 2
    for i in 0..n:
      a[i] = a[i + 1]*c[i]
  )",
               R"(
    for z in 0..n + k + 1:
      a_initial[z] = a[z]
    a[0] = 2
    local f32 a_before[n]
    for z0 in 0..n:
      a_before[z0] = a[z0 + 1]
    for i in 0..n:
      a[i] = a_before[i]*c[i]
  )");
}

// Each zero stands in front of a sum of the next iteration, so they are loops of their own.
TEST(ReadBefore, WhatElseMeetsGetsLoopsOfItsOwn) {
  expect_freed(R"(
    for i in 0..n reversed:
      local f32 seed
      seed = a[i]
      a[i] = 0
      a[i + 1] += seed*c[i]
      y[i] = seed
  )",
               R"(
    local f32 a_before[n]
    for z0 in 0..n:
      a_before[z0] = a[z0]
    for i in 0..n reversed:
      a[i] = 0
    for i in 0..n reversed:
      y[i] = a_before[i]
    for i in 0..n reversed:
      a[i + 1] += a_before[i]*c[i]
  )");
}

// `b` is read and overwritten in one iteration only, but that keeps two statements together which another one comes
// between.
TEST(ReadBefore, ACopyThatTakesStatementsApart) {
  expect_freed(R"(
    for i in 0..n reversed:
      a[i] += b[i]
      a[i + 1] += b[i]*c[i]
      b[i] = a[i]*c[i]
      a[i] = 0
  )",
               R"(
    local f32 b_before[n]
    for z0 in 0..n:
      b_before[z0] = b[z0]
    for i in 0..n reversed:
      a[i] += b_before[i]
    for i in 0..n reversed:
      b[i] = a[i]*c[i]
    for i in 0..n reversed:
      a[i] = 0
    for i in 0..n reversed:
      a[i + 1] += b_before[i]*c[i]
  )");
}

TEST(ReadBefore, NestsFromTheOutermostLoopOn) {
  expect_freed(R"(
    for i in 0..n:
      for j in 0..m:
        u[i, j] = u[i + 1, j] + u[i, j + 1]
  )",
               R"(
    local f32 u_before[n + 1, m + 1]
    for z0 in 0..n + 1:
      for z1 in 0..m + 1:
        u_before[z0, z1] = u[z0, z1]
    for i in 0..n:
      for j in 0..m:
        u[i, j] = u_before[i + 1, j] + u_before[i, j + 1]
  )");
  // The loop around is parallel already, and its iterations share the copy.
  expect_freed(R"(
    for i in 0..n:
      for j in 0..m:
        u[i, j] = u[i, j + 1]
  )",
               R"(
    local f32 u_before[n, m]
    for z0 in 0..n:
      for z1 in 0..m:
        u_before[z0, z1] = u[z0, z1 + 1]
    for i in 0..n:
      for j in 0..m:
        u[i, j] = u_before[i, j]
  )");
  // Rows further up are new, so that only the loop along a row can be freed.
  expect_freed(R"(
    for i in 1..n:
      for j in 0..m:
        u[i, j] = u[i - 1, j] + u[i, j + 1]
  )",
               R"(
    for i in 1..n:
      local f32 u_before[1, m]
      for z0 in 0..1:
        for z1 in 0..m:
          u_before[z0, z1] = u[z0 + i, z1 + 1]
      for j in 0..m:
        u[i, j] = u[i - 1, j] + u_before[0, j]
  )");
}

TEST(ReadBefore, WhatIsNewOrUnknownStays) {
  expect_stays(R"(
    for i in 0..n:
      a[i + 1] = a[i]*c[i]
  )");
  expect_stays(R"(
    for i in 0..n:
      a[i] = a[i64(at[i])]
  )");
  expect_stays(R"(
    for i in 0..n:
      a[n - 1 - i] = a[i]*c[i]
  )");
  expect_stays(R"(
    for i in 0..n:
      a[i] = a[i + 1]
      a[0] = a[0]*c[i]
  )");
  expect_stays(R"(
    for i in 0..n:
      a[i] = b[i]*c[i]
  )");
  expect_stays(R"(
    for i in 0..n:
      local f32 w[8]
      for j in 0..8:
        w[j] = c[i]
      for j in 0..7:
        w[j] = w[j + 1]*2
      y[i] = w[0]
  )");
}

// A copy reads no element that has no value yet.
TEST(ReadBefore, ALocalArrayThatHasAllOfItsValues) {
  expect_freed(R"(
    local f32 w[n]
    for i in 0..n:
      w[i] = c[i]
    for i in 0..n - 1:
      w[i] = w[i + 1]*2
    y[0] = w[0]
  )",
               R"(
    local f32 w[n]
    for i in 0..n:
      w[i] = c[i]
    local f32 w_before[max(n - 1, 0)]:
      for z0 in 0..n - 1:
        w_before[z0] = w[z0 + 1]
      for i in 0..n - 1:
        w[i] = w_before[i]*2
    y[0] = w[0]
  )");
  expect_stays(R"(
    local f32 w[n]
    for i in 1..n:
      w[i] = c[i]
    for i in 0..n - 1:
      w[i] = w[i + 1]*2
    y[0] = w[0]
  )");
}

// As many elements as in the square, for a diagonal or a band of it.
TEST(ReadBefore, ACopyIsAboutAsLargeAsWhatIsRead) {
  expect_stays(R"(
    for i in 0..min(n, m):
      u[i, i] = u[i + 1, i + 1]
  )");
  expect_stays(R"(
    for i in 0..n - 4:
      for j in max(i - 1, 0)..min(i + 2, m):
        u[i, j] = u[i + 1, j]
  )");
  expect_stays(R"(
    for i in 0..n//16:
      a[16*i] = a[16*i + 16]
  )");
}

TEST(ReadBefore, ShortLoopsAndFullMachinesStay) {
  const std::string loop = R"(
    for i in 0..n:
      a[i] = a[i + 1]*c[i]
  )";
  Machine machine = machine_for_short_loops();
  machine.least_scanned = 4096;
  expect_kept("read_before", read_and_written, loop, "", machine);
  const std::string rows = R"(
    for i in 0..n:
      for j in 0..m:
        u[i, j] = u[i, j + 1]
  )";
  machine = machine_for_short_loops();
  machine.enough_threads = 16;
  expect_kept("read_before", read_and_written, rows, "", machine);
  expect_kept("read_before", read_and_written, R"(
    for i in 0..n:
      for j in 0..m:
        u[i, j] = u[i + 1, j]
  )",
              "", machine);
}

}  // namespace
}  // namespace loopgrad::transforms
