// What the first iteration takes, at elements that data choose: see transforms/loops/find_takers.h.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

constexpr const char* edges = R"(
    program p(n, m, d)
      input  i32 key[n]
      input  i32 other[n]
      input  f32 x[n, d]
      input  f32 best[m, d]
      inout  f32 d_x[n, d]
      inout  f32 d_best[m, d]
      fact   key in 0..m
      fact   other in 0..m
    )";

// Columns have elements of their own, so that a turn counts edges only.
TEST(FindTakers, TheGreatestTurnTakesAll) {
  expect_pass("find_takers", edges,
              R"(
    for e in 0..n reversed:
      for k in 0..d reversed:
        if x[e, k] == best[key[e], k]:
          d_x[e, k] += d_best[key[e], k]*2
          d_best[key[e], k] = 0
    )",
              R"(
    local i64 turn[m, d]
    for z0 in 0..m:
      for z1 in 0..d:
        turn[z0, z1] = 0
    for e in 0..n reversed:
      for k in 0..d reversed:
        if x[e, k] == best[key[e], k]:
          turn[key[e], k] max= (atomic) e + 1
    for e in 0..n reversed:
      for k in 0..d reversed:
        if x[e, k] == best[key[e], k]:
          if turn[key[e], k] == e + 1:
            d_x[e, k] += d_best[key[e], k]*2
    for z0 in 0..m:
      for z1 in 0..d:
        if turn[z0, z1] != 0:
          d_best[z0, z1] = 0
    )",
              "a maximum of whole numbers");
}

// Two statements of an iteration take turns, the first of the text before the second.
TEST(FindTakers, StatementsTakeTurnsInTheirOrder) {
  expect_pass("find_takers", edges,
              R"(
    for e in 0..n:
      local f32 got
      got = d_best[key[e], 0]
      d_best[key[e], 0] = 0
      d_x[e, 0] += got*x[e, 0]
      if x[e, 0] > 0:
        d_x[e, 0] += d_best[other[e], 0]
        d_best[other[e], 0] = 0
    )",
              R"(
    local i64 turn[m]
    for z0 in 0..m:
      turn[z0] = 0
    for e in 0..n:
      turn[key[e]] max= (atomic) (n - 1 - e)*2 + 2
      if x[e, 0] > 0:
        turn[other[e]] max= (atomic) (n - 1 - e)*2 + 1
    for e in 0..n:
      local f32 got
      got = select(turn[key[e]] == (n - 1 - e)*2 + 2, d_best[key[e], 0], 0)
      d_x[e, 0] += got*x[e, 0]
      if x[e, 0] > 0:
        if turn[other[e]] == (n - 1 - e)*2 + 1:
          d_x[e, 0] += d_best[other[e], 0]
    for z0 in 0..m:
      if turn[z0] != 0:
        d_best[z0, 0] = 0
    )");
}

// What reads two of the arrays takes from each what its own turn says. A loop without a trip has no turns.
TEST(FindTakers, OneStatementTakesFromSeveral) {
  expect_pass("find_takers", R"(
    program p(n, m)
      input  i32 key[n]
      inout  f32 x[n]
      inout  f32 a[m]
      inout  f32 b[m]
      fact   key in 0..m
    )",
              R"(
    for e in 0..n:
      x[e] += a[key[e]] + b[key[e]]
      a[key[e]] = 0
      b[key[e]] = 0
      for j in 0..m - 3:
        x[e] += b[key[e]]*2
        b[key[e]] = 0
    )",
              R"(
    local i64 turn[m]
    local i64 turn_1[m]
    for z0 in 0..m:
      turn_1[z0] = 0
    for e in 0..n:
      turn_1[key[e]] max= (atomic) n - 1 - e + 1
    for z0 in 0..m:
      turn[z0] = 0
    for e in 0..n:
      turn[key[e]] max= (atomic) (n - 1 - e)*(max(m - 3, 0) + 1) + max(m - 3, 0) + 1
      for j in 0..m - 3:
        turn[key[e]] max= (atomic) (n - 1 - e)*(max(m - 3, 0) + 1) + (m - 4 - j) + 1
    for e in 0..n:
      x[e] += select(turn_1[key[e]] == n - 1 - e + 1, a[key[e]], 0) + select(turn[key[e]] == (n - 1 - e)*(max(m - 3, 0) + 1) + max(m - 3, 0) + 1, b[key[e]], 0)
      for j in 0..m - 3:
        if turn[key[e]] == (n - 1 - e)*(max(m - 3, 0) + 1) + (m - 4 - j) + 1:
          x[e] += b[key[e]]*2
    for z0 in 0..m:
      if turn_1[z0] != 0:
        a[z0] = 0
    for z0 in 0..m:
      if turn[z0] != 0:
        b[z0] = 0
    )");
}

TEST(FindTakers, NotWhatTheLoopUsesInAnotherWay) {
  expect_kept("find_takers", edges, R"(
    for e in 0..n:
      d_x[e, 0] += d_best[key[e], 0]
      d_best[key[e], 0] = 0
      d_x[e, 1] += d_best[other[e], 0]
    )");
  expect_kept("find_takers", edges, R"(
    for e in 0..n:
      d_best[other[e], 0] += x[e, 0]
      d_x[e, 0] += d_best[key[e], 0]
      d_best[key[e], 0] = 0
    )");
  // The condition follows from what an earlier iteration has taken.
  expect_kept("find_takers", edges, R"(
    for e in 0..n:
      if d_x[0, 0] > 0:
        d_x[0, 0] += d_best[key[e], 0]
        d_best[key[e], 0] = 0
    )");
  // The rest of the loop keeps its order by itself.
  expect_kept("find_takers", edges, R"(
    for e in 1..n:
      d_x[e, 0] += d_best[key[e], 0]
      d_best[key[e], 0] = 0
      d_x[e, 1] = d_x[e - 1, 1]*x[e, 1]
    )");
  // What the trip before has chosen is read.
  expect_kept("find_takers", edges, R"(
    for e in 0..n:
      local i32 k
      for j in 0..d:
        if j > 0:
          d_x[e, 0] += d_best[k, 0]
          k = key[e]
          d_best[k, 0] = 0
        else:
          k = other[e]
    )");
  // Another place by the time that it is cleared.
  expect_kept("find_takers", edges, R"(
    for e in 0..n:
      local i32 k
      k = key[e]
      d_x[e, 0] += d_best[k, 0]
      k = other[e]
      d_best[k, 0] = 0
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
