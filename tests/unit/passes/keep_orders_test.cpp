// keep_orders on its own, and what a program computes with kept arrays that are new or those of a run before.
#include "transforms/sums/keep_orders.h"

#include "dsl/ir/printer.h"
#include "dsl/ir/verifier.h"
#include "tests/unit/passes/expect_pass.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

const LowerOptions compared_on_gpu{.machine = gpu_machine(), .orders = Orders::Compared};

struct Kept {
  ir::Program before, after;
  KeptOrders orders;
};

Kept kept_in(const std::string& declarations, const std::string& body,
             const LowerOptions& options = {.orders = Orders::Kept}) {
  Kept result;
  result.before = program_of(declarations, body);
  result.after = keep_orders(result.before, result.orders, options);
  ir::verify(result.after, "keep_orders");
  return result;
}

std::string names_of(const std::vector<ir::Array>& arrays) {
  std::string names;
  for (const ir::Array& array : arrays) names += array->name + " ";
  return names;
}

/// With the declarations of `after`, which has more arrays.
void expect_text(const Kept& kept, const std::string& declarations, const std::string& body) {
  EXPECT_EQ(ir::print(kept.after), ir::print(program_of(declarations, body)));
}

TEST(KeepOrders, LeaveTimeLoopsAndConditionsOfSizes) {
  const Kept kept = kept_in(R"(
    program p(n, m, steps)
      input  i32 idx[n]
      input  f32 x[n]
      inout  f32 y[m]
      fact   idx in 0..m
  )",
                            R"(
    for t in 0..steps:
      if n >= 8:
        local i32 count[m]
        local i32 next
        parallel for k in 0..m:
          count[k] = 0
        for i in 0..n:
          count[idx[i]] += 1
        parallel for k in 0..m:
          y[k] += f32(count[k])*x[0]
  )");
  EXPECT_EQ(names_of(kept.orders.arrays), "count ");
  EXPECT_EQ(names_of(kept.orders.deciding), "idx ");
  expect_text(kept, R"(
    program p(n, m, steps, stale)
      input  i32 idx[n]
      input  f32 x[n]
      inout  f32 y[m]
      inout  i32 count[m]
      fact   idx in 0..m
  )",
              R"(
    if stale != 0:
      if 0 < steps:
        if n >= 8:
          parallel for k in 0..m:
            count[k] = 0
          for i in 0..n:
            count[idx[i]] += 1
    for t in 0..steps:
      if n >= 8:
        parallel for k in 0..m:
          y[k] += f32(count[k])*x[0]
  )");
}

TEST(KeepOrders, WhatOnlyTheyNeedIsScratch) {
  const Kept kept = kept_in(R"(
    program p(n, m)
      input  i32 idx[n]
      inout  f32 y[m]
      fact   idx in 0..m
  )",
                            R"(
    local i32 place[m]
    local i32 first[m]
    for i in 0..n:
      place[idx[i]] = i32(i)
    parallel for k in 0..m:
      first[k] = 2*place[k]
    parallel for k in 0..m:
      y[k] += f32(first[k])
  )");
  EXPECT_EQ(names_of(kept.orders.arrays), "first ");
  const std::string text = ir::print(kept.after);
  EXPECT_NE(text.find("inout  i32 first[m]"), std::string::npos) << text;
  EXPECT_NE(text.find("local i32 place[m]"), std::string::npos) << text;
  EXPECT_LT(text.find("stale != 0"), text.find("place[idx[i]]")) << text;
}

TEST(KeepOrders, NotWhatChangesFromCallToCall) {
  const char* declarations = R"(
    program p(n, m)
      input  i32 idx[n]
      inout  i32 own[n]
      input  f32 x[n]
      inout  f32 y[m]
      fact   idx in 0..m
  )";
  const auto expect_none = [&](const std::string& body) {
    const Kept kept = kept_in(declarations, body);
    EXPECT_TRUE(kept.orders.arrays.empty()) << names_of(kept.orders.arrays);
    EXPECT_EQ(ir::print(kept.after), ir::print(kept.before));
  };
  // Floating-point numbers decide.
  expect_none(R"(
    local i32 count[m]
    for k in 0..m:
      count[k] = 0
    for i in 0..n:
      if x[i] > 0:
        count[idx[i]] += 1
    for k in 0..m:
      y[k] = f32(count[k])
  )");
  // The program's own indices decide.
  expect_none(R"(
    local i32 count[m]
    for k in 0..m:
      count[k] = own[0]
    for k in 0..m:
      y[k] = f32(count[k])
    own[0] = 1
  )");
  // Another statement writes it, too.
  expect_none(R"(
    local i32 count[m]
    for k in 0..m:
      count[k] = idx[0]
    for k in 0..m:
      count[k] += own[0]
    for k in 0..m:
      y[k] = f32(count[k])
  )");
  // It is read while it is not complete.
  expect_none(R"(
    local i32 count[m]
    for k in 0..m:
      count[k] = idx[0]
    for k in 0..m:
      y[k] = f32(count[k])
    for k in 0..m:
      count[k] += 1
    for k in 0..m:
      y[k] += f32(count[k])
  )");
}

const char* const counted = R"(
    program p(n, m)
      input  i32 idx[n]
      inout  f32 y[m]
      fact   idx in 0..m
  )";
const char* const counts = R"(
    local i32 count[m]
    parallel for k in 0..m:
      count[k] = 0
    for i in 0..n:
      count[idx[i]] += 1
    parallel for k in 0..m:
      y[k] += f32(count[k])
  )";
const char* const counted_and_seen = R"(
    program p(n, m, stale)
      input  i32 idx[n]
      inout  f32 y[m]
      inout  i32 count[m]
      inout  i32 idx_seen[n]
      fact   idx in 0..m
  )";

TEST(KeepOrders, EachKernelOfAGpuLooksWhetherInputsChanged) {
  const Kept kept = kept_in(counted, counts, compared_on_gpu);
  EXPECT_TRUE(kept.orders.compares);
  EXPECT_EQ(names_of(kept.orders.arrays), "count idx_seen ");
  expect_text(kept, counted_and_seen, R"(
    if stale != 0:
      local i32 changed[1]
      changed[0] = i32(stale == 1)
      if stale == 2:
        parallel for e0 in 0..n:
          if i32(idx[e0]) != idx_seen[e0]:
            changed[0] max= (atomic) 1
      parallel for e0 in 0..n:
        if i32(changed[0]) != 0:
          idx_seen[e0] = idx[e0]
      parallel for k in 0..m:
        if i32(changed[0]) != 0:
          count[k] = 0
      if i32(changed[0]) != 0:
        for i in 0..n:
          count[idx[i]] += 1
    parallel for k in 0..m:
      y[k] += f32(count[k])
  )");
}

TEST(KeepOrders, ACpuLooksOnce) {
  const Kept kept = kept_in(counted, counts, {.orders = Orders::Compared});
  expect_text(kept, counted_and_seen, R"(
    if stale != 0:
      local i32 changed[1]
      changed[0] = i32(stale == 1)
      if stale == 2:
        parallel for piece in 0..(n + 4095)//4096:
          local i32 differs
          differs = 0
          for e in piece*4096..min(piece*4096 + 4096, n):
            differs max= i32(i32(idx[e]) != idx_seen[e])
          if i32(differs) != 0:
            changed[0] max= (atomic) differs
      if i32(changed[0]) != 0:
        parallel for e0 in 0..n:
          idx_seen[e0] = idx[e0]
        parallel for k in 0..m:
          count[k] = 0
        for i in 0..n:
          count[idx[i]] += 1
    parallel for k in 0..m:
      y[k] += f32(count[k])
  )");
}

TEST(KeepOrders, ANumberIsComparedLikeAnArray) {
  for (const LowerOptions& options : {LowerOptions{.orders = Orders::Compared}, compared_on_gpu}) {
    const Kept kept = kept_in(R"(
    program p(n)
      input  i32 shift
      inout  f32 y[n]
  )",
                              R"(
    local i32 place[n]
    parallel for k in 0..n:
      place[k] = i32(k) + shift
    parallel for k in 0..n:
      y[k] += f32(place[k])
  )",
                              options);
    EXPECT_EQ(names_of(kept.orders.arrays), "place shift_seen ");
    EXPECT_NE(ir::print(kept.after).find("if i32(shift) != shift_seen:\n"), std::string::npos) << ir::print(kept.after);
  }
}

TEST(KeepOrders, WhatSizesDecideIsComputedOnce) {
  const Kept kept = kept_in(R"(
    program p(n, m)
      input  i32 idx[n]
      inout  f32 y[m]
  )",
                            R"(
    local i32 place[m]
    parallel for k in 0..m:
      place[k] = i32(n)
    parallel for k in 0..m:
      y[k] += f32(place[k])
  )",
                            compared_on_gpu);
  expect_text(kept, R"(
    program p(n, m, stale)
      input  i32 idx[n]
      inout  f32 y[m]
      inout  i32 place[m]
  )",
              R"(
    if stale != 0:
      if stale == 1:
        parallel for k in 0..m:
          place[k] = i32(n)
    parallel for k in 0..m:
      y[k] += f32(place[k])
  )");
}

}  // namespace
}  // namespace loopgrad::transforms
