// Declarations that belong into loops.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

constexpr const char* declarations = R"(
    program p(n, m)
      input  f64 x[n, m]
      output f64 y[n, m]
    )";

TEST(NarrowScopes, AWorkspaceThatEachIterationFillsIsItsOwn) {
  expect_pass("narrow_scopes", declarations, R"(
    local f64 work[m]
    local f64 last
    for i in 0..n:
      for j in 0..m:
        work[j] = x[i, j]
      for j1 in 0..m:
        last = work[m - 1 - j1]*work[j1]
        y[i, j1] = last + 1
    )",
              R"(
    for i in 0..n:
      local f64 work[m]
      for j in 0..m:
        work[j] = x[i, j]
      for j1 in 0..m:
        local f64 last
        last = work[m - 1 - j1]*work[j1]
        y[i, j1] = last + 1
    )");
}

/// Elements of iterations of their own, those that an iteration finds set, or may find set, and what decides.
TEST(NarrowScopes, WhatIterationsHaveInCommonOrForThemselvesStays) {
  const auto stays = [](const char* body) { expect_kept("narrow_scopes", declarations, body); };
  stays(R"(
    local f64 own[n]
    for i in 0..n:
      own[i] = x[i, 0]
      y[i, 0] = own[i]*own[i]
    )");
  stays(R"(
    local f64 work[m]
    for j0 in 0..m:
      work[j0] = 0.5
    for i in 0..n:
      for j in 1..m:
        work[j] = x[i, j]
      for j1 in 0..m:
        y[i, j1] = work[j1]
    )");
  stays(R"(
    local f64 sum
    sum = 0
    for i in 0..n:
      sum += x[i, 0]
      y[i, 0] = sum
    )");
  stays(R"(
    local f64 work[m]
    for i in 0..n:
      if i == 0:
        for j in 0..m:
          work[j] = x[i, j]
      for j1 in 0..m:
        y[i, j1] = work[j1]
    )");
  stays(R"(
    local f64 kept
    kept = 0
    for i in 0..n:
      if kept > 0.5:
        y[i, 0] = 1
      kept = x[i, 0]
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
