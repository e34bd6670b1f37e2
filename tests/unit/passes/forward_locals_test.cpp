// Scalars that are computed again where a sum reads them: see transforms/storage/forward_locals.h.
#include "transforms/storage/forward_locals.h"
#include "tests/unit/passes/parts.h"
#include "transforms/analysis/analyses.h"
#include "transforms/analysis/nest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

using ir::Program;
using ir::Stmt;

TEST(ForwardLocals, ReplacesAScalarByWhatItHolds) {
  const char* declarations = R"(
    program p(n)
      input  f32 d_y[n]
      input  f32 w[n]
      inout  f32 d_x[n + 1]
  )";
  const ir::Program program = program_of(declarations, R"(
    for i in 0..n:
      local f32 seed
      seed = d_y[i]*w[i]
      d_x[i + 1] += seed*w[i]
  )");
  const Stmt sum = forward_locals(model_of(program), program.body, first<ir::Reduce>(program.body));
  EXPECT_EQ(ir::print(sum), "d_x[i + 1] += d_y[i]*w[i]*w[i]\n");
}

// What would be kept for all pairs of neighbours is computed again: functions, and sums of two steps.
TEST(ForwardLocals, ComputesAgainWhatWouldBeKeptForPairs) {
  const auto forwarded = [](const char* arrays, const char* at, const char* other) {
    const ir::Program program = program_of(std::string("program p(n, m)\n") + arrays, fmt::format(R"(
for i in 0..n:
  for j in 0..n:
    for a in 0..m:
      for b in 0..m:
        local f32 e
        local f32 d_e
        e = exp(x[{1}] - x[{0}])
        d_e = d_y[{0}]*x[{1}]
        d_e += d_y[{0}]
        d_x[{1}] += d_e*e
)",
                                                                                                  at, other));
    const auto sums = leaves(program.body);
    return ir::print(forward_locals(model_of(program), program.body, sums.back()));
  };
  const char* const planes = "  input  f32 x[n, n]\n  input  f32 d_y[n, n]\n  inout  f32 d_x[n, n]\n";
  EXPECT_EQ(forwarded(planes, "i, j", "a, b"), "d_x[a, b] += (d_y[i, j]*x[a, b] + d_y[i, j])*exp(x[a, b] - x[i, j])\n");
  const char* const all = "  input  f32 x[n, n, m, m]\n  input  f32 d_y[n, n, m, m]\n  inout  f32 d_x[n, n, m, m]\n";
  EXPECT_EQ(forwarded(all, "i, j, a, b", "i, j, b, a"), "d_x[i, j, b, a] += d_e*e\n")
      << "no more than the arrays that are there";
}

// What a pixel has is no more than a plane, whatever window of it the terms come from.
TEST(ForwardLocals, KeepsWhatTheTermsOfAWindowHaveInCommon) {
  const auto forwarded = [](const std::string& value) {
    const ir::Program program = program_of(R"(
    program p(n, m)
      input  f32 x[n, n]
      input  f32 d_y[n, n]
      input  f32 w[m, m]
      inout  f32 d_x[n + m, n + m]
    )",
                                           fmt::format(R"(
for i in 0..n:
  for j in 0..n:
    local f32 e
    local f32 d_e
    e = {}
    d_e = d_y[i, j]/e
    for a in 0..m:
      for b in 0..m:
        d_x[i + a, j + b] += d_e*w[a, b]
)",
                                                       value));
    return ir::print(forward_locals(model_of(program), program.body, leaves(program.body).back()));
  };
  EXPECT_EQ(forwarded("sqrt(x[i, j])"), "d_x[i + a, j + b] += d_e*w[a, b]\n");
  EXPECT_EQ(forwarded("x[i, j] + 1"), "d_x[i + a, j + b] += d_y[i, j]/(x[i, j] + 1)*w[a, b]\n");
}

// What runs up from iteration to iteration is no value of one of them.
TEST(ForwardLocals, KeepsWhatALoopSumsUp) {
  const char* const declarations = R"(
    program p(n)
      input  f32 x[n]
      inout  f32 y[n]
  )";
  const char* const always = R"(
    for i in 0..n:
      for j in 0..n:
        local f32 s
        s = 0.5
        for k in 0..n:
          s += x[i]*x[k]
          y[k] += s*x[j]
  )";
  const char* const sometimes = R"(
    for i in 0..n:
      for j in 0..n:
        local f32 s
        s = 0.5
        for k in 0..n:
          if x[k] > 0:
            s += x[i]*x[k]
          y[k] += s*x[j]
  )";
  for (const char* body : {always, sometimes}) {
    const ir::Program program = program_of(declarations, body);
    const Stmt sum = leaves(program.body).back();
    EXPECT_TRUE(forward_locals(model_of(program), program.body, sum).same_as(sum)) << body;
  }
}

/// What is computed for an index is kept: it is asked for by whoever orders the iterations.
TEST(ForwardLocals, ReplacesCopiesOfElementsInIndices) {
  const char* declarations = R"(
    program p(n)
      input  i32 near[n]
      input  f32 d_y[n]
      inout  f32 d_x[n]
  )";
  const auto forwarded = [&](const std::string& body) {
    const ir::Program program = program_of(declarations, body);
    return ir::print(forward_locals(model_of(program), program.body, first<ir::Reduce>(program.body)));
  };
  EXPECT_EQ(forwarded(R"(
    for i in 0..n:
      local i32 j
      j = near[i]
      d_x[j] += d_y[i]
  )"),
            "d_x[near[i]] += d_y[i]\n");
  EXPECT_EQ(forwarded(R"(
    for i in 0..n:
      local i32 j
      j = near[i] + 1
      d_x[j] += d_y[i]
  )"),
            "d_x[j] += d_y[i]\n");
}

TEST(ForwardLocals, KeepsAScalarWhoseSourceHasChanged) {
  const ir::Program program = program_of(R"(
    program p(n)
      inout  f32 d_y[n]
      inout  f32 d_x[n + 1]
  )",
                                         R"(
    for i in 0..n:
      local f32 seed
      seed = d_y[i]
      d_y[i] = 0
      d_x[i + 1] += seed
  )");
  const Stmt sum = first<ir::Reduce>(program.body);
  EXPECT_TRUE(forward_locals(model_of(program), program.body, sum).same_as(sum));
}

}  // namespace
}  // namespace loopgrad::transforms
