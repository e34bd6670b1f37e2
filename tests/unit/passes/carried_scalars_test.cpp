// Scalars that loops carry though they follow from iterators, or from what the iteration before has read.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

constexpr const char* declarations = R"(
    program p(n, m)
      input  f64 x[3*n + 8]
      input  i64 at[n]
      inout  f64 y[3*n + n*m + 8]
      output i64 last
      output f64 rest
      fact   at in 0..n
    )";

void closes(const char* before, const char* after) { expect_pass("closed_counters", declarations, before, after); }
void keeps_counters(const char* body) { expect_kept("closed_counters", declarations, body); }

TEST(ClosedCounters, ACounterIsAnExpressionOfTheIterator) {
  closes(R"(
    local i64 k
    k = 1
    for i in 2..n:
      y[k] = x[k + 1]
      k += 3
      y[k] = x[i]
    last = k
    )",
         R"(
    for i in 2..n:
      y[3*i - 5] = x[3*i - 4]
      y[3*i - 2] = x[i]
    last = 3*max(n - 2, 0) + 1
    )");
}

TEST(ClosedCounters, LoopsBackwardCountFromTheirEnd) {
  closes(R"(
    local i64 k
    k = 0
    for i in 0..n reversed:
      y[k] = x[i]
      k += 2
    )",
         R"(
    for i in 0..n reversed:
      y[2*n - 2*i - 2] = x[i]
    )");
}

TEST(ClosedCounters, CountersOfNestsAreMultipliedByTrips) {
  closes(R"(
    local i64 k
    k = 0
    for i in 0..n:
      for j in 1..m:
        y[k] = x[i]
        k += 1
      k += 1
    last = k
    )",
         R"(
    for i in 0..n:
      for j in 1..m:
        y[m*i + j - 1] = x[i]
    last = max(m, 1)*n
    )");
}

TEST(ClosedCounters, CountersOfEachOther) {
  closes(R"(
    local i64 j
    local i64 k
    j = -1
    for i in 0..n:
      k = j + 1
      y[k] = x[i]
      j = k + 1
      y[j] = x[k]
    )",
         R"(
    for i in 0..n:
      y[2*i] = x[i]
      y[2*i + 1] = x[2*i]
    )");
}

/// As repeated addition: modulo 2^32.
TEST(ClosedCounters, CountersOf32BitsGoOnAtTheOtherEnd) {
  closes(R"(
    local i32 k
    k = 2147483640
    rest = 0
    for i in 0..n:
      k += 5
      rest += f64(k)
    )",
         R"(
    rest = 0
    for i in 0..n:
      rest += f64(i32(2147483640 + 5*i) + 5i32)
    )");
}

TEST(ClosedCounters, IndicesOfTheIterationsBefore) {
  closes(R"(
    local i64 one
    local i64 two
    one = n
    two = n + 1
    for i in 0..n:
      y[i] = x[one]*x[two]
      two = one
      one = at[i]
    last = one
    )",
         R"(
    for i in 0..n:
      y[i] = x[select(i == 0, n, at[i - 1])]*x[select(i == 0, n + 1, select(i - 1 == 0, n, at[i - 2]))]
    last = select(0 < n, at[n - 1], n)
    )");
}

/// What is not known before a loop still counts from there.
TEST(ClosedCounters, ACounterGoesOnFromWhatABranchHasLeft) {
  closes(R"(
    local i64 k
    k = 0
    for i in 0..n:
      if x[i] > 0.5:
        k += 1
    for j in 0..m:
      y[k] = 1
      k += 1
    last = k
    )",
         R"(
    local i64 k
    k = 0
    for i in 0..n:
      if x[i] > 0.5:
        k += 1
    for j in 0..m:
      y[k + j] = 1
    k = k + m
    last = k
    )");
}

TEST(ClosedCounters, StepsThatDifferStay) {
  keeps_counters(R"(
    local i64 k
    k = 0
    for i in 0..n:
      if x[i] > 0.5:
        y[k] = x[i]
        k += 1
    )");
  keeps_counters(R"(
    local i64 k
    k = 0
    for i in 0..n:
      y[i] = x[k]
      k += at[i]
    )");
  keeps_counters(R"(
    local i64 k
    k = 0
    for i in 0..n:
      rest += f64(k)
      k = 3*k + 1
    )");
  keeps_counters(R"(
    local i64 k
    k = 0
    for i in 0..n while k < m:
      y[k] = x[i]
      k += 2
    )");
}

void owns(const char* before, const char* after) { expect_pass("own_values", declarations, before, after); }
void keeps_values(const char* body) { expect_kept("own_values", declarations, body); }

TEST(OwnValues, WhatTheIterationsBeforeHaveReadIsReadAgain) {
  owns(R"(
    local f64 one
    one = x[n]
    local f64 two
    two = 0.5
    for i in 0..n:
      y[i] = one*two
      two = one
      one = x[i] + 1
    rest = one*two
    )",
       R"(
    local f64 one
    one = x[n]
    local f64 two
    two = 0.5
    for i in 0..n:
      y[i] = select(i == 0, x[n], x[i - 1] + 1)*select(i == 0, 0.5, select(i - 1 == 0, x[n], x[i - 1 - 1] + 1))
    if 0 < n:
      two = select(n - 1 == 0, x[n], x[n - 1 - 1] + 1)
    if 0 < n:
      one = x[n - 1] + 1
    rest = one*two
    )");
}

TEST(OwnValues, BackwardLoopsHaveTheNextOneBefore) {
  owns(R"(
    local f64 one
    one = y[0]
    rest = 0
    for i in 2..n reversed:
      rest += one*x[i]
      one = x[i]
      rest += one
    )",
       R"(
    local f64 one
    one = y[0]
    rest = 0
    for i in 2..n reversed:
      local f64 one_1
      rest += select(i == n - 1, one, x[i + 1])*x[i]
      one_1 = x[i]
      rest += one_1
    )");
}

TEST(OwnValues, TheLastIterationStoresWhatIsReadLater) {
  owns(R"(
    local f64 t
    t = 0.5
    for i in 0..n:
      t = 1
      for j in 0..m:
        t += x[j]*x[i]
      y[i] = t
    rest = t
    )",
       R"(
    local f64 t
    t = 0.5
    for i in 0..n:
      local f64 t_1
      t_1 = 1
      for j in 0..m:
        t_1 += x[j]*x[i]
      y[i] = t_1
      if i == n - 1:
        t = t_1
    rest = t
    )");
}

TEST(OwnValues, WhatTheLoopChangesStays) {
  keeps_values(R"(
    local f64 one
    one = 0.5
    for i in 0..n:
      y[i] = y[i] + one
      one = y[i + 1]
    )");
  keeps_values(R"(
    local f64 one
    one = 0.5
    for i in 0..n:
      y[i] = one
      if x[i] > 0.5:
        one = x[i]
    )");
  keeps_values(R"(
    local f64 one
    one = 0.5
    for i in 0..n:
      y[i] = one
      one = exp(x[i])
    )");
}

/// Nobody reads the last value, or the loop stays in order anyway.
TEST(OwnValues, LoopsThatGainNothingStay) {
  keeps_values(R"(
    local f64 t
    for i in 0..n:
      t = 1
      for j in 0..m:
        t += x[j]*x[i]
      y[i] = t
    for i1 in 0..n:
      t = exp(x[i1])
      y[i1] += t
    )");
  keeps_values(R"(
    local f64 t
    t = 0.5
    for i in 0..n:
      t = y[0]*x[i]
      y[0] = t
    rest = t
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
