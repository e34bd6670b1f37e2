// Counters under conditions: scans of integers, and the positions that they give out.
#include "dsl/ir/printer.h"
#include "dsl/symbolic/growing_counters.h"
#include "tests/support/ir_text.h"
#include "tests/unit/passes/recurrences.h"
#include "transforms/bounds/bound_accesses.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

constexpr const char* declarations = R"(
    program p(n, m)
      input  f32 b[n]
      input  f32 c[n, m]
      input  i32 step[n]
      inout  f32 a[n]
      inout  f32 y[n]
  )";

void isolates(const char* before, const char* after) {
  const ir::Program program = run_passes("isolate_recurrences", declarations, before, small_gpu()).after;
  EXPECT_EQ(ir::print(program.body), ir::print(program_of(declarations, after).body));
}
void keeps(const char* body, const Machine& machine = small_gpu()) {
  expect_kept("isolate_recurrences", declarations, body, "", machine);
}

TEST(ConditionalCounters, WhatIsPackedByOneIsParallelWithoutIt) {
  isolates(R"(
    local i64 j
    j = -1
    for i in 0..n:
      if b[i] > 0:
        j += 1
        if j < n:
          a[j] = b[i]
    )",
           R"(
    local i64 j
    j = -1
    local i64 j_place[n]
    local i64 j_at[n]
    for i in 0..n:
      j_at[i] = select(b[i] > 0, select(i == 0, -1, j_at[i - 1]) + 1, select(i == 0, -1, j_at[i - 1]))
    for i in 0..n:
      if b[i] > 0:
        j_place[i] = select(i == 0, -1, j_at[i - 1]) + 1
        if j_place[i] < n:
          a[j_place[i]] = b[i]
    )");
}

TEST(ConditionalCounters, ANestCountsInOneLoop) {
  isolates(R"(
    local i64 j
    j = 0
    for i in 0..n reversed:
      for k in 0..m:
        y[i] += c[i, k]*f32(j)
        if c[i, k] > 0:
          j += 1
    )",
           R"(
    local i64 j
    j = 0
    local i64 j_at[n*m]
    for q in 0..n*m:
      j_at[q] = select(c[n - q//m - 1, q % m] > 0, select(q == 0, 0, j_at[q - 1]) + 1, select(q == 0, 0, j_at[q - 1]))
    for i in 0..n reversed:
      for k in 0..m:
        y[i] += c[i, k]*f32(select(k == 0, select(i == n - 1, 0, j_at[(n - i - 2)*m + m - 1]), j_at[(n - i - 1)*m + k - 1]))
    )");
}

TEST(ConditionalCounters, StepsFromDataAreASum) {
  isolates(R"(
    local i32 s
    s = 7
    for i in 0..n:
      s += step[i]
      y[i] = select(s > 3, b[i], 0)
    )",
           R"(
    local i32 s
    s = 7
    local i32 s_at[n]
    for i in 0..n:
      s_at[i] = select(i == 0, 7, s_at[i - 1]) + step[i]
    for i in 0..n:
      y[i] = select(s_at[i] > 3, b[i], 0)
    )");
}

TEST(ConditionalCounters, AProcessorCountsInOrder) {
  keeps(R"(
    local i64 j
    j = -1
    for i in 0..n:
      if b[i] > 0:
        j += 1
        a[j] = b[i]
    )",
        small_cpu());
}

TEST(ConditionalCounters, WhatStaysInOrderKeepsItsCounter) {
  keeps(R"(
    local i64 j
    j = 0
    for i in 0..n:
      if b[i] > 0:
        j += 1
      a[j] = b[i]*a[j]
    )");
  keeps(R"(
    local i64 j
    j = 0
    for i in 0..n:
      if b[i] > 0:
        a[j] = b[i]
        j += 1
        a[j] = 2*b[i]
    )");
  keeps(R"(
    local i64 j
    j = 0
    for i in 0..n:
      if a[i] > 0:
        a[j] = b[i]
        j += 1
    )");
}

/// The statements of `body` that assign to `array`, by whether they find `j` at a value of their own.
std::string moves(const std::string& body, const std::string& array = "a") {
  const ir::Program program = program_of(declarations, body);
  ir::Array counter;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    const auto* local = s.as<ir::Allocate>();
    if (local && local->array->name == "j") counter = local->array;
  });
  const ir::GrowingCounters counters(program.body);
  std::string result;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    const auto* assign = s.as<ir::Assign>();
    if (!assign || assign->array->name != array) return;
    result += counters.moves_between(s, counter) ? "moves " : counters.moves_around(s, counter) ? "around " : "stays ";
  });
  return result;
}

TEST(GrowingCounters, AStepInTheSameRowComesBetween) {
  EXPECT_EQ(moves(R"(
    local i64 j
    j = 5
    for i in 0..n:
      if b[i] > 0:
        a[j] = 1
        j += -3
        if b[i] > 1:
          a[j] = 2
        for k in 0..m:
          a[j] = 3
      else:
        a[j] = 4
        j += -1
      a[j] = 5
    a[j] = 6
    )"),
            "moves moves around moves stays stays ");
}

TEST(GrowingCounters, NotWhereItMayComeBack) {
  for (const char* const other : {"j += -1", "j = 0", "j += i64(step[i])", "j max= i", "j = 2*j"})
    EXPECT_EQ(moves(std::string(R"(
    local i64 j
    j = 0
    for i in 0..n:
      if b[i] > 0:
        a[j] = 1
        j += 1
      if b[i] > 2:
        )") + other),
              "stays ")
        << other;
}

TEST(GrowingCounters, NotByRowsOfALoopAround) {
  EXPECT_EQ(moves(R"(
    local i64 j
    for i in 0..n:
      j = 0
      for k in 0..m:
        if c[i, k] > 0:
          a[j] = 1
          j += 1
    )"),
            "stays ");
  EXPECT_EQ(moves(R"(
    for i in 0..n:
      local i64 j
      j = 0
      for k in 0..m:
        if c[i, k] > 0:
          a[j] = 1
          j += 1
    )"),
            "stays ");
}

TEST(GrowingCounters, NotIn32BitsAndNotByNothing) {
  EXPECT_EQ(moves(R"(
    local i32 j
    j = 0
    for i in 0..n:
      a[i64(j)] = 1
      j += 1
    )"),
            "stays ");
  EXPECT_EQ(moves(R"(
    local i64 j
    j = 0
    for i in 0..n:
      a[j] = 1
      j += 0
    )"),
            "stays ");
}

TEST(DistinctTapes, LoopsThatWriteWhereTheySayAreParallel) {
  const std::string with_tape = std::string(declarations) + "    tape   i64 at[n]\n";
  const char* const body = R"(
    for i in 0..n:
      if b[i] > 0:
        a[at[i]] = b[i]
    )";
  const auto reasons = [&](const char* fact) {
    return ir::print(run_passes("parallelize_loops", with_tape + fact, body).after.body);
  };
  EXPECT_NE(reasons("      fact at distinct\n").find("parallel for i"), std::string::npos);
  EXPECT_EQ(reasons("").find("parallel for i"), std::string::npos);
}

TEST(DistinctTapes, AnIndexThatIsOutOfRangeIsLeftOut) {
  const std::string with_tape = std::string(declarations) + "    tape   i64 at[n]\n      fact at distinct\n";
  const ir::Program program = program_of(with_tape, R"(
    for i in 0..n:
      a[at[i]] = b[i]
    )");
  Record record;
  const std::string text = ir::print(bound_accesses(program, false, record).body);
  EXPECT_EQ(text.find("max(min("), std::string::npos) << text;
  EXPECT_NE(text.find("a[at[i]] = b[i]"), std::string::npos) << text;
}

}  // namespace
}  // namespace loopgrad::transforms
