// What stands for loops and branches of data where the host only starts kernels.
#include "transforms/map/gpu/data_control.h"
#include "tests/unit/passes/parts.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

constexpr const char* with_count = R"(
  program p(n, most)
    input  i32 count[1]
    input  f32 x[n]
    inout  f32 y[n]
)";

void expect_steps(const std::string& body, const std::string& steps) {
  const ir::Program program = program_of(with_count, body);
  const HostSteps found = host_steps(program.body);
  ASSERT_TRUE(found.code);
  expect_body(program, found.code, with_count, steps);
}

void expect_none(const std::string& body) { EXPECT_FALSE(host_steps(program_of(with_count, body).body).code) << body; }

TEST(HostSteps, OfAWhileAskInEachTripWhetherItTakesPlace) {
  expect_steps(R"(
    for t in 0..most while y[0] > 1:
      y[1] = 0
      parallel for i in 0..n:
        y[i] *= x[i]
  )",
               R"(
    local bool go[max(most, 0) + 1]
    go[0] = true
    for t in 0..most:
      go[t + 1] = go[t] && y[0] > 1
      if go[t + 1]:
        y[1] = 0
      if go[t + 1]:
        parallel for i in 0..n:
          y[i] *= x[i]
  )");
}

TEST(HostSteps, OfALoopAreThoseThatThereMayBe) {
  expect_steps(R"(
    for t in 1..i64(count[0]) (at most most):
      parallel for i in 0..n:
        y[i] += x[i]
  )",
               R"(
    local i64 last
    last = i64(count[0])
    for t in 1..most + 1:
      if t < last:
        parallel for i in 0..n:
          y[i] += x[i]
  )");
  expect_steps(R"(
    for t in 0..min(i64(count[0]), most) reversed:
      parallel for i in 0..n:
        y[i] += x[i]
  )",
               R"(
    local i64 last
    last = min(i64(count[0]), most)
    for t in 0..most reversed:
      if t < last:
        parallel for i in 0..n:
          y[i] += x[i]
  )");
}

TEST(HostSteps, OfParallelLoopsStayANest) {
  expect_steps(R"(
    parallel for k in 0..i64(count[0]) (at most most):
      parallel for i in 0..n:
        y[i] += x[i]
  )",
               R"(
    local i64 last
    last = i64(count[0])
    parallel for k in 0..most:
      parallel for i in 0..n:
        if k < last:
          y[i] += x[i]
  )");
}

TEST(HostSteps, OfABranchAskOnce) {
  expect_steps(R"(
    if y[0] > 1:
      parallel for i in 0..n:
        y[i] = 0
    else:
      y[0] = 2
  )",
               R"(
    local bool taken
    taken = y[0] > 1
    if taken:
      parallel for i in 0..n:
        y[i] = 0
    else:
      y[0] = 2
  )");
}

TEST(HostSteps, AreNoneWhereTheHostDoesNotKnowHowManyThereMayBe) {
  expect_none("for t in 0..i64(count[0]):\n  parallel for i in 0..n:\n    y[i] += x[i]\n");
  expect_none("for t in i64(count[0])..n (at most n):\n  parallel for i in 0..n:\n    y[i] += x[i]\n");
}

/// Of the first branch of a program.
bool guards(const std::string& body) {
  const ir::Program program = program_of(with_count, body);
  return is_guard(*first<ir::If>(program.body).as<ir::If>());
}

TEST(Guards, ReadLocalsThatTheirBodiesLeaveAlone) {
  const std::string local = "local f32 s\ns = x[0]\n";
  EXPECT_TRUE(guards(local + "if s > 0:\n  y[0] = 1\n"));
  EXPECT_FALSE(guards(local + "if s > 0:\n  s = 1\n"));
  EXPECT_FALSE(guards(local + "if s > 0:\n  y[0] = 1\nelse:\n  s += 1\n"));
  // Arrays of the caller may be one.
  EXPECT_FALSE(guards("if x[0] > 0:\n  y[0] = 1\n"));
}

TEST(Guards, AreInsideOfEveryKernel) {
  const std::string before = R"(
    local f32 s
    s = x[0]
    if s > 0:
      for step in 0..most:
        if most < 9:
          grid for b in 0..n:
            grid for c in 0..2:
              threads for t in 0..32:
                y[b] = 1
        grid for b in 0..1:
          y[0] = 2
  )";
  const ir::Program program = program_of(with_count, before);
  const auto& branch = *first<ir::If>(program.body).as<ir::If>();
  const ir::Stmt local = first<ir::Allocate>(program.body);
  const ir::Stmt guarded =
      ir::allocate(local.as<ir::Allocate>()->array,
                   ir::block({first<ir::Assign>(program.body), guard_kernels(branch.then_body, branch.condition)}));
  expect_body(program, guarded, with_count, R"(
    local f32 s
    s = x[0]
    for step in 0..most:
      if most < 9:
        grid for b in 0..n:
          grid for c in 0..2:
            if s > 0:
              threads for t in 0..32:
                y[b] = 1
      grid for b in 0..1:
        if s > 0:
          y[0] = 2
  )");
}

/// A machine that is full with few iterations, so that they are enough to be launched.
TEST(MapToGpu, LaunchesTheTripsOfAWhile) {
  Machine machine = gpu_machine();
  machine.enough_threads = 4;
  expect_pass("map_to_gpu", with_count, R"(
    for t in 0..5 while y[0] > 1:
      parallel for i in 0..n:
        y[i] = y[i]*0.5
  )",
              R"(
    if max(n, 0) > 1:
      local bool go[6]
      grid for b in 0..1:
        threads for t in 0..1:
          go[0] = true
      for t in 0..5:
        grid for b in 0..1:
          threads for t_1 in 0..1:
            go[t + 1] = go[t] && y[0] > 1
        for blocks_x in (n + 1023)//1024..(n + 1023)//1024 + 1:
          grid for block_x in 0..blocks_x:
            if go[t + 1]:
              threads for thread_x in 0..256:
                for i in (block_x*256 + thread_x)*4..min((block_x*256 + thread_x)*4 + 4, n) (chunk of 4):
                  y[i] = y[i]*0.5
    else:
      grid for b in 0..1:
        for t in 0..5 while y[0] > 1:
          threads for t_1 in 0..256:
            for i_step in 0..(n - t_1*4 + 1023)//1024 (strided):
              for i in t_1*4 + i_step*1024..min(t_1*4 + i_step*1024 + 4, n) (chunk of 4):
                y[i] = y[i]*0.5
  )",
              "what data decide, kernels look up", machine);
}

TEST(MapToGpu, LeavesLongLoopsOfDataToOneBlock) {
  const PassResult result = run_passes("map_to_gpu", with_count, R"(
    for t in 0..5000 while y[0] > 1:
      parallel for i in 0..n:
        y[i] = y[i]*0.5
  )",
                                       gpu_machine());
  EXPECT_EQ(ir::print(result.after).find("local bool go"), std::string::npos);
}

}  // namespace
}  // namespace loopgrad::transforms
