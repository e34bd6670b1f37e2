// What the first iteration takes, at elements that data or loops choose, or that are one for all: see
// transforms/loops/find_takers.h.
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
              "a maximum of whole numbers", gpu_machine());
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
    )",
              "", gpu_machine());
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
    )",
              "", gpu_machine());
}

void keeps(const std::string& body) { expect_kept("find_takers", edges, body, "", gpu_machine()); }

TEST(FindTakers, NotWhatTheLoopUsesInAnotherWay) {
  keeps(R"(
    for e in 0..n:
      d_x[e, 0] += d_best[key[e], 0]
      d_best[key[e], 0] = 0
      d_x[e, 1] += d_best[other[e], 0]
    )");
  keeps(R"(
    for e in 0..n:
      d_best[other[e], 0] += x[e, 0]
      d_x[e, 0] += d_best[key[e], 0]
      d_best[key[e], 0] = 0
    )");
  // The condition follows from what an earlier iteration has taken.
  keeps(R"(
    for e in 0..n:
      if d_x[0, 0] > 0:
        d_x[0, 0] += d_best[key[e], 0]
        d_best[key[e], 0] = 0
    )");
  // The rest of the loop keeps its order by itself.
  keeps(R"(
    for e in 1..n:
      d_x[e, 0] += d_best[key[e], 0]
      d_best[key[e], 0] = 0
      d_x[e, 1] = d_x[e - 1, 1]*x[e, 1]
    )");
  // What the trip before has chosen is read.
  keeps(R"(
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
  keeps(R"(
    for e in 0..n:
      local i32 k
      k = key[e]
      d_x[e, 0] += d_best[k, 0]
      k = other[e]
      d_best[k, 0] = 0
    )");
}

constexpr const char* points = R"(
    program p(n, m)
      input  f64 x[n, m]
      input  f64 box[2, 2]
      inout  f64 d_x[n, m]
      inout  f64 d_box[2, 2]
    )";

// Two extrema and a sum of one loop, on any machine. Numbers keep the elements apart.
TEST(FindTakers, ElementsThatAreTheSameInTheWholeLoop) {
  for (const Machine& machine : {cpu_machine(), gpu_machine()})
    expect_pass("find_takers", points,
                R"(
    for i in 0..n reversed:
      for j in 0..m reversed:
        local f64 v
        v = x[i, j]*x[i, j]
        if v == box[1, 0]:
          d_x[i, j] += d_box[1, 0]
          d_box[1, 0] = 0
        if v == box[0, 0]:
          d_x[i, j] += d_box[0, 0]
          d_box[0, 0] = 0
        d_x[i, j] += d_box[0, 1]
    )",
                R"(
    local i64 turn
    local i64 turn_1:
      turn_1 = 0
      for i in 0..n reversed:
        for j in 0..m reversed:
          local f64 v
          v = x[i, j]*x[i, j]
          if v == box[1, 0]:
            turn_1 max= i*m + j + 1
      turn = 0
      for i in 0..n reversed:
        for j in 0..m reversed:
          local f64 v
          v = x[i, j]*x[i, j]
          if v == box[0, 0]:
            turn max= i*m + j + 1
      for i in 0..n reversed:
        for j in 0..m reversed:
          local f64 v
          v = x[i, j]*x[i, j]
          if v == box[1, 0]:
            if turn_1 == i*m + j + 1:
              d_x[i, j] += d_box[1, 0]
          if v == box[0, 0]:
            if turn == i*m + j + 1:
              d_x[i, j] += d_box[0, 0]
          d_x[i, j] += d_box[0, 1]
      if turn_1 != 0:
        d_box[1, 0] = 0
      if turn != 0:
        d_box[0, 0] = 0
    )",
                "the greatest turn", machine);
}

// An iterator inside chooses the element: turns count the loop at hand.
TEST(FindTakers, ElementsThatAnIteratorChooses) {
  expect_pass("find_takers", points,
              R"(
    for i in 0..n reversed:
      for j in 0..2 reversed:
        if x[i, j] == box[0, j]:
          d_x[i, j] += d_box[0, j]
          d_box[0, j] = 0
    )",
              R"(
    local i64 turn[2]
    for z0 in 0..2:
      turn[z0] = 0
    for i in 0..n reversed:
      for j in 0..2 reversed:
        if x[i, j] == box[0, j]:
          turn[j] max= i + 1
    for i in 0..n reversed:
      for j in 0..2 reversed:
        if x[i, j] == box[0, j]:
          if turn[j] == i + 1:
            d_x[i, j] += d_box[0, j]
    for z0 in 0..2:
      if turn[z0] != 0:
        d_box[0, z0] = 0
    )");
}

// A search alone (search_loops.h), in a loop of a loop on a CPU, and where numbers do not keep the elements apart.
TEST(FindTakers, NotWhatIsASearch) {
  expect_kept("find_takers", points, R"(
    for i in 0..n reversed:
      if x[i, 0] == box[0, 0]:
        d_x[i, 0] += d_box[0, 0]
        d_box[0, 0] = 0
    )");
  expect_kept("find_takers", points, R"(
    for i in 0..n:
      d_box[1, 0] = x[i, 0]
      for j in 0..m reversed:
        d_x[i, j] += d_box[0, 0]
        d_box[0, 0] = 0
        d_x[i, j] += d_box[1, 0]
    )");
  expect_kept("find_takers", points, R"(
    for i in 0..n:
      d_x[i, 0] += d_box[0, 0]
      d_box[0, 0] = 0
      d_x[i, 1] += d_box[0, i - 1]
    )");
}

}  // namespace
}  // namespace loopgrad::transforms
