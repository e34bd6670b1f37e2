// Loops over steps that leave a short loop around them: see transforms/loops/hoist_steps.h.
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

constexpr const char* arrays = R"(
    program p(n, steps)
      input  f32 x[n]
      input  i32 at[n]
      inout  f32 y[3, steps]
      inout  f32 total[steps]
      inout  f32 z[3, n, 8]
    )";

void expect_left_alone(const std::string& body) {
  const PassResult result = run_passes("hoist_steps", arrays, body, gpu_machine());
  EXPECT_TRUE(result.after.body.same_as(result.before.body)) << body;
}

// A local of the step has one element for each problem, one of a nest stays where it is.
TEST(HoistSteps, ProblemsDoEachStepTogether) {
  expect_pass("hoist_steps", arrays,
              R"(
    for s in 0..3:
      local f32 u[n + 2]
      for i in 0..n + 2:
        u[i] = 1
      for t in 0..steps reversed:
        local f32 last
        last = u[5]
        for i in 1..n + 1:
          for k in 0..8:
            local f32 w
            w = u[i + 1]*last
            u[i] += w*x[i - 1]
        y[s, t] = last
        total[t] += last
    )",
              R"(
    local f32 last_all[3]
    local f32 u_all[3, n + 2]
    for s in 0..3:
      for i in 0..n + 2:
        u_all[s, i] = 1
    for t in 0..steps reversed:
      for s in 0..3:
        last_all[s] = u_all[s, 5]
      for s in 0..3:
        for i in 1..n + 1:
          for k in 0..8:
            local f32 w
            w = u_all[s, i + 1]*last_all[s]
            u_all[s, i] += w*x[i - 1]
      for s in 0..3:
        y[s, t] = last_all[s]
        total[t] += last_all[s]
    )",
              "the about 3 iterations of 's' do each step of 't' together", gpu_machine());
}

// The loops may have no trip, where the extents of what is outside of them now would be negative.
TEST(HoistSteps, LocalsHaveNoFewerThanNoElements) {
  expect_pass("hoist_steps", arrays,
              R"(
    for s in 2..min(n, 3):
      local f32 u[n - 2]
      for i in 0..n - 2:
        u[i] = 1
      for t in 0..steps:
        for i in 1..n - 2:
          for k in 0..8:
            u[i] = u[i - 1]*x[i]
    )",
              R"(
    local f32 u_all[max(min(n, 3) - 2, 0), max(n - 2, 0)]
    for s in 2..min(n, 3):
      for i in 0..n - 2:
        u_all[s - 2, i] = 1
    for t in 0..steps:
      for s in 2..min(n, 3):
        for i in 1..n - 2:
          for k in 0..8:
            u_all[s - 2, i] = u_all[s - 2, i - 1]*x[i]
    )",
              "do each step of 't' together", gpu_machine());
}

TEST(HoistSteps, NotWhereABlockForEachFillsTheMachine) {
  expect_left_alone(R"(
    for s in 0..3*n:
      local f32 u[n]
      for i in 0..n:
        u[i] = 1
      for t in 0..steps:
        for i in 1..n:
          for k in 0..8:
            u[i] = u[i - 1]*x[i]
    )");
}

TEST(HoistSteps, NotOutOfALoopThatCarriesWhatStepsRead) {
  expect_left_alone(R"(
    for s in 1..3:
      for t in 0..steps:
        for i in 1..n:
          for k in 0..8:
            z[s, i, k] = z[s, i - 1, k]*z[s - 1, i, k]
    )");
}

// Steps that only add up are no steps: sums are restructured as they are.
TEST(HoistSteps, NotOfStepsThatCarrySumsAlone) {
  expect_left_alone(R"(
    for s in 0..3:
      for t in 0..steps:
        for i in 0..n:
          for k in 0..8:
            z[s, i, k] += x[i]*y[s, t]
    )");
}

// As many steps as each problem has for itself, or as data say, are not those of all.
TEST(HoistSteps, NotOfStepsThatDifferBetweenProblems) {
  for (const std::string bound : {"s + 5", "at[s]"}) {
    expect_left_alone(R"(
    for s in 0..3:
      for t in 0..)" + bound +
                      R"(:
        for i in 1..n:
          for k in 0..8:
            z[s, i, k] = z[s, i - 1, k]*x[i]
    )");
  }
}

}  // namespace
}  // namespace loopgrad::transforms
