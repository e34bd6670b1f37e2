// What leaves its loop as a recurrence.
#include "dsl/ir/printer.h"
#include "tests/unit/passes/recurrences.h"
#include "tests/unit/transforms/same_bits.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

std::string after_isolation(const std::string& declarations, const std::string& body, std::string* said = nullptr) {
  const PassResult result = run_passes("isolate_recurrences", declarations, body, small_gpu());
  if (said) *said = reasons_in(result.report);
  return ir::print(result.after.body);
}

void expect_isolated(const std::string& declarations, const std::string& before, const std::string& after) {
  EXPECT_EQ(after_isolation(declarations, before), ir::print(program_of(declarations, after).body));
  for (const std::int64_t n : {1, 2, 33}) {
    const ir::Program a = program_of(declarations, before), b = program_of(declarations, after);
    const Buffers expected = run(a, {{"n", n}, {"m", 3}}), actual = run(b, {{"n", n}, {"m", 3}});
    for (const ir::Array& array : a.arrays)
      for (std::int64_t k = 0; k < expected.at(array->name).size(); ++k)
        EXPECT_EQ(actual.at(array->name).get(k), expected.at(array->name).get(k)) << array->name << k;
  }
}

void expect_not_isolated(const std::string& declarations, const std::string& body, const std::string& why) {
  std::string said;
  EXPECT_EQ(after_isolation(declarations, body, &said), ir::print(program_of(declarations, body).body));
  EXPECT_NE(said.find(why), std::string::npos) << said;
}

TEST(IsolateRecurrences, WhatALoopCarriesLeavesIt) {
  expect_isolated(recurrence_arrays, R"(
    local f32 s
    s = 0
    for i in 0..n:
      s = decay*s + x[i]
      y[i] = s*s
  )",
                  R"(
    local f32 s
    s = 0
    local f32 s_at[n]
    for i in 0..n:
      s_at[i] = decay*select(i == 0, 0, s_at[i - 1]) + x[i]
    for i in 0..n:
      y[i] = s_at[i]*s_at[i]
  )");
}

TEST(IsolateRecurrences, OneFromAnotherAreTwo) {
  expect_isolated(recurrence_arrays, R"(
    local f32 v
    v = 0
    local f32 q
    q = 1
    for i in 0..n:
      v = 0.5*v + x[i]
      q += v
      y[i] = q
  )",
                  R"(
    local f32 v
    v = 0
    local f32 q
    q = 1
    local f32 v_at[n]
    for i in 0..n:
      v_at[i] = 0.5*select(i == 0, 0, v_at[i - 1]) + x[i]
    local f32 q_at[n]
    for i in 0..n:
      q_at[i] = select(i == 0, 1, q_at[i - 1]) + v_at[i]
    for i in 0..n:
      y[i] = q_at[i]
  )");
}

TEST(IsolateRecurrences, ABranchThatChangesItsOwnConditionStays) {
  expect_not_isolated(recurrence_arrays, R"(
    local f32 s
    s = 0
    for i in 0..n:
      if a_copy[0] > 0:
        s = x[i]
        a_copy[0] = x[i]
      y[i] = s
  )",
                      "what it depends on changes within an iteration");
}

TEST(IsolateRecurrences, WhatReadsTheValueAfterABranchHasTheBranchsLocal) {
  expect_isolated(recurrence_arrays, R"(
    local f32 s
    s = 0
    for i in 0..n:
      if a[i] > 0:
        local bf16 half:
          half = bf16(x[i])
          s = half
        y[i] = s
        s = 0
      else:
        s = 0.5*s
  )",
                  R"(
    local f32 s
    s = 0
    local f32 s_at[n]
    for i in 0..n:
      s_at[i] = select(a[i] > 0, 0, 0.5*select(i == 0, 0, s_at[i - 1]))
    for i in 0..n:
      local bf16 half
      if a[i] > 0:
        half = bf16(x[i])
        y[i] = half
  )");
}

TEST(IsolateRecurrences, RowsAreSplitAsWell) {
  expect_isolated(recurrence_arrays, R"(
    for r in 0..m:
      z[r, 0] = x[0]
      for i in 1..n:
        z[r, i] = z[r, i - 1]*a[i]
  )",
                  R"(
    for r in 0..m:
      z[r, 0] = x[0]
    for r in 0..m:
      for i in 1..n:
        z[r, i] = z[r, i - 1]*a[i]
  )");
}

TEST(IsolateRecurrences, TheLastValueIsThereForALoopAround) {
  // Rows go on where the row before has ended: dropping what is left of s was wrong once.
  const std::string text = after_isolation(recurrence_arrays, R"(
    local f32 s
    s = 1
    for r in 0..m:
      for i in 0..n:
        s = 0.5*s + x[i]
        z[r, i] = s
  )");
  EXPECT_NE(text.find("s = s_at[n - 1]"), std::string::npos) << text;
}

TEST(IsolateRecurrences, ScalarsThatIterationsRenewAreTheirOwn) {
  const std::string text = after_isolation(recurrence_arrays, R"(
    local f32 lost
    local f32 v
    v = 0
    for i in 0..n:
      lost = decay*v
      v = v + x[i] - lost
      y[i] = v
  )");
  EXPECT_NE(text.find("v_at[i] = "), std::string::npos) << text;
}

TEST(IsolateRecurrences, WhatIsNotLinearStays) {
  expect_not_isolated(recurrence_arrays, R"(
    for i in 1..n:
      y[i] = tanh(y[i - 1]) + x[i]
      a_copy[i] = y[i]
  )",
                      "tanh(y[i - 1]) + x[i] does not depend on it linearly");
  expect_not_isolated(recurrence_arrays, R"(
    local f32 s
    s = 1
    for i in 0..n:
      s = s*s + x[i]
      y[i] = s
  )",
                      "does not depend on it linearly");
}

TEST(IsolateRecurrences, WhatDecidesStays) {
  const std::string why = "it decides about control";
  expect_not_isolated(recurrence_arrays, R"(
    local f32 s
    s = 1
    for i in 0..n:
      s = decay*s + x[i]
      if s > 0.5:
        y[i] = x[i]
  )",
                      why);
  expect_not_isolated(recurrence_arrays, R"(
    local f32 s
    s = 1
    for i in 0..n:
      local f32 t
      s = s + x[i]
      t = s*2
      y[i] = max(t, x[i])
  )",
                      why);
  // An extremum is not rounded.
  const std::string text = after_isolation(recurrence_arrays, R"(
    local f32 s
    s = 1
    for i in 0..n:
      s max= x[i]
      if s > 0.5:
        y[i] = x[i]
  )");
  EXPECT_NE(text.find("s_at[i] = max("), std::string::npos) << text;
}

TEST(IsolateRecurrences, ShortLoopsAndPlainSumsStay) {
  const char* const sums = R"(
    local f32 s
    s = 0
    for i in 0..n:
      s += x[i]
    y[0] = s
  )";
  expect_not_isolated(recurrence_arrays, sums, "");
  const char* const carried = R"(
    local f32 s
    s = 0
    for i in 0..n:
      s += x[i]
      y[i] = s
  )";
  EXPECT_EQ(ir::print(run_passes("isolate_recurrences", recurrence_arrays, carried, cpu_machine()).after),
            ir::print(program_of(recurrence_arrays, carried)));  // a thousand iterations by estimate
}

}  // namespace
}  // namespace loopgrad::transforms
