// Elements that loops sum into, in scalars, alone.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

TEST(AccumulateInRegisters, SumsInAScalarIfThereIsATrip) {
  expect_pass("accumulate_in_registers", R"(
    program p(n, k)
      input  f32 x[n + k - 1]
      input  f32 w[k]
      inout  f32 y[n]
    )",
              R"(
    parallel for i in 0..n:
      for j in 0..k:
        y[i] += x[i + j]*w[j]
    )",
              R"(
    parallel for i in 0..n:
      if 0 < k:
        local f32 y_sum
        y_sum = y[i]
        for j in 0..k:
          y_sum += x[i + j]*w[j]
        y[i] = y_sum
    )");
}

TEST(AccumulateInRegisters, LoadsNothingThatMayHaveNoValueYet) {
  const char* declarations = R"(
    program p(n)
      output f32 y[n]
    )";
  expect_pass("accumulate_in_registers", declarations, R"(
    for k in 0..n:
      for i in 0..3:
        for j in 0..i:
          y[k] = y[k]*2
        y[k] = 0.5
    )",
              R"(
    for k in 0..n:
      for i in 0..3:
        if 0 < i:
          local f32 y_now
          y_now = y[k]
          for j in 0..i:
            y_now = y_now*2
          y[k] = y_now
        y[k] = 0.5
    )");
  expect_pass("accumulate_in_registers", declarations, R"(
    for k in 0..n:
      for j in 0..k:
        y[k] = 2
      y[k] = 0.5
    )",
              R"(
    for k in 0..n:
      local f32 y_now
      for j in 0..k:
        y_now = 2
      y_now = 0.5
      y[k] = y_now
    )");
}

TEST(AccumulateInRegisters, LoadsWhereTheFirstTripReads) {
  const char* declarations = R"(
    program p(n)
      input  f32 x[n]
      output f32 y
      output f32 z
    )";
  expect_pass("accumulate_in_registers", declarations, R"(
    for i in 0..n:
      y = exp(select(i == 1, y, 0.5))
      y += x[i]
    )",
              R"(
    if 0 < n:
      local f32 y_sum
      y_sum = 0
      for i in 0..n:
        y_sum = exp(select(i == 1, y_sum, 0.5))
        y_sum += x[i]
      y = y_sum
    )");
  expect_pass("accumulate_in_registers", declarations, R"(
    for i in 0..n reversed:
      y = exp(select(i < n - 1 && y > 1, x[i], 0.5))
    )",
              R"(
    if 0 < n:
      local f32 y_now
      y_now = select(n - 1 < n - 1, y, 0)
      for i in 0..n reversed:
        y_now = exp(select(i < n - 1 && y_now > 1, x[i], 0.5))
      y = y_now
    )");
  expect_pass("accumulate_in_registers", declarations, R"(
    z = 0
    for i in 0..n:
      if i > 0:
        z += y
      y = x[i]
    )",
              R"(
    local f32 z_sum
    z_sum = 0
    if 0 < n:
      local f32 y_now
      y_now = 0
      for i in 0..n:
        if i > 0:
          z_sum += y_now
        y_now = x[i]
      y = y_now
    z = z_sum
    )");
}

TEST(AccumulateInRegisters, LoadsWhereABlockReads) {
  expect_pass("accumulate_in_registers", R"(
    program p(n, k)
      input  f32 x[k]
      output f32 y[n]
      output f32 z[n]
    )",
              R"(
    for i in 1..n:
      y[i] = 2
    for i in 0..n:
      z[i] = select(i > 0, y[i], 0.5)
      y[i] = 0
      for j in 0..k:
        y[i] += x[j]
    )",
              R"(
    for i in 1..n:
      y[i] = 2
    for i in 0..n:
      local f32 y_sum
      if i > 0:
        y_sum = y[i]
      z[i] = select(i > 0, y_sum, 0.5)
      y_sum = 0
      for j in 0..k:
        y_sum += x[j]
      y[i] = y_sum
    )");
}

TEST(AccumulateInRegisters, KeepsWhatMayHaveNoValueWhereThatCannotBeAsked) {
  expect_kept("accumulate_in_registers", R"(
    program p(n)
      input  f32 x[n]
      output f32 y
    )",
              R"(
    for i in 0..n:
      local f32 a
      a = x[i]*f32(i)
      y = exp(select(a != 0, y, 0.5))
    )");
}

TEST(AccumulateInRegisters, StartsFromWhatWasAssigned) {
  expect_pass("accumulate_in_registers", R"(
    program p(n, k)
      input  f32 x[n + k - 1]
      input  f32 w[k]
      output f32 y[n]
    )",
              R"(
    parallel for i in 0..n:
      y[i] = 0
      for j in 0..k:
        y[i] += x[i + j]*w[j]
    )",
              R"(
    parallel for i in 0..n:
      local f32 y_sum
      y_sum = 0
      for j in 0..k:
        y_sum += x[i + j]*w[j]
      y[i] = y_sum
    )");
}

TEST(AccumulateInRegisters, KeepsSumsThatTheLoopReads) {
  expect_kept("accumulate_in_registers", R"(
    program p(n, k)
      inout  f32 y[n + k]
    )",
              R"(
    for i in 0..n:
      for j in 0..k:
        y[i] += y[i + j]*0.5
    )");
}

TEST(AccumulateInRegisters, ReadsOtherElementsOfItsArray) {
  expect_pass("accumulate_in_registers", R"(
    program p(n)
      inout  f32 a[n, n]
    )",
              R"(
    for i in 0..n:
      for j in 0..i:
        for k in 0..j:
          a[i, j] += -(a[i, k]*a[j, k])
        a[i, j] = a[i, j]*0.001
    )",
              R"(
    for i in 0..n:
      for j in 0..i:
        local f32 a_sum
        a_sum = a[i, j]
        for k in 0..j:
          a_sum += -(a[i, k]*a[j, k])
        a_sum = a_sum*0.001
        a[i, j] = a_sum
    )");
}

TEST(AccumulateInRegisters, IsThereFromTheFirstUseToTheLast) {
  expect_pass("accumulate_in_registers", R"(
    program p(n, k)
      input  f32 x[k]
      inout  f32 y[n]
      inout  f32 z[n]
    )",
              R"(
    for i in 0..n:
      z[i] += 1
      y[i] = 0
      for j in 0..k:
        y[i] += x[j]
      z[i] += y[i]
      z[i] *= 2
    )",
              R"(
    for i in 0..n:
      z[i] += 1
      local f32 y_sum:
        y_sum = 0
        for j in 0..k:
          y_sum += x[j]
        z[i] += y_sum
        y[i] = y_sum
      z[i] *= 2
    )");
}

TEST(AccumulateInRegisters, SumsOverLoopsDirectlyInsideEachOther) {
  expect_pass("accumulate_in_registers", R"(
    program p(n, k)
      input  f32 x[n, k]
      inout  f32 y[1]
    )",
              R"(
    for i in 0..n:
      for j in 0..k:
        y[0] += x[i, j]
    )",
              R"(
    if 0 < n && 0 < k:
      local f32 y_sum
      y_sum = y[0]
      for i in 0..n:
        for j in 0..k:
          y_sum += x[i, j]
      y[0] = y_sum
    )");
}

TEST(AccumulateInRegisters, KeepsElementsWhoseIndexTheLoopChanges) {
  expect_pass("accumulate_in_registers", R"(
    program p(n, k)
      inout  i32 at[1]
      inout  f32 y[n + 1]
    )",
              R"(
    for j in 0..k:
      y[min(at[0], n)] += 1
      at[0] = max(at[0], 0)
    )",
              R"(
    if 0 < k:
      local i32 at_now
      at_now = at[0]
      for j in 0..k:
        y[min(at_now, n)] += 1
        at_now = max(at_now, 0)
      at[0] = at_now
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
