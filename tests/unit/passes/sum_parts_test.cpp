// What the summation plan is made of, each part alone.
#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"
#include "tests/support/ir_text.h"
#include "tests/unit/passes/expect_pass.h"
#include "tests/unit/transforms/same_bits.h"
#include "transforms/loops/fission.h"
#include "transforms/sums/gather_sums.h"
#include "transforms/sums/keep_operands.h"
#include "transforms/sums/partial_results.h"

#include <gtest/gtest.h>

namespace loopgrad::transforms {
namespace {

using ir::Program;
using ir::Stmt;

Program program_of(const std::string& declarations, const std::string& body) {
  return ir::parse_program(dedented(declarations) + dedented(body));
}

std::vector<Stmt> sums_in(const Program& program) {
  std::vector<Stmt> sums;
  ir::walk_stmts(program.body, [&](const Stmt& s) {
    if (s.as<ir::Reduce>()) sums.push_back(s);
  });
  return sums;
}

poly::Model model_of(const Program& program) {
  return poly::build_model(program, program.body, std::make_shared<poly::Context>());
}

/// The nest in which the first sum has copies, as text.
std::string with_copies(const Program& program) {
  const auto kept = keep_operands(program.body, sums_in(program)[0]);
  return kept ? ir::print(ir::with_body(program, kept->nest).body) : "";
}

const char* const recurrence = R"(
    program p(n)
      input  f32 a[n]
      inout  f32 d_h
      inout  f32 d_g
      inout  f32 d_b[n]
  )";

TEST(KeepOperands, CopiesWhatTheLoopChanges) {
  EXPECT_EQ(with_copies(program_of(recurrence, R"(
    for j in 0..n reversed:
      d_b[j] += d_h*a[j]
      d_h = d_h*a[j]
  )")),
            "for j in 0..n reversed:\n"
            "  local f32 d_h_then:\n"
            "    d_h_then = d_h\n"
            "    d_b[j] += d_h_then*a[j]\n"
            "  d_h = d_h*a[j]\n");
}

TEST(KeepOperands, CopiesTheValueOfSeveral) {
  EXPECT_EQ(with_copies(program_of(recurrence, R"(
    for j in 0..n reversed:
      d_b[j] += d_h*d_g
      d_h = d_h*a[j]
      d_g = d_h
  )")),
            "for j in 0..n reversed:\n"
            "  local f32 d_b_then:\n"
            "    d_b_then = d_h*d_g\n"
            "    d_b[j] += d_b_then\n"
            "  d_h = d_h*a[j]\n"
            "  d_g = d_h\n");
}

TEST(KeepOperands, LeavesWhatNothingChanges) {
  EXPECT_EQ(with_copies(program_of(recurrence, R"(
    for j in 0..n reversed:
      d_b[j] += d_h*a[j]
      d_g = d_h
  )")),
            "");
}

TEST(GatherSums, EnumeratesTheTarget) {
  const ir::Program program = program_of(R"(
    program p(n, k)
      input  f32 d_y[n]
      input  f32 w[k]
      inout  f32 d_x[n + k - 1]
  )",
                                         R"(
    for i in 0..n:
      for j in 0..k:
        d_x[i + j] += d_y[i]*w[j]
  )");
  const poly::Model model = model_of(program);
  const Separators separators = separators_of(model, program.body, sums_in(program));
  EXPECT_EQ(separators.dims, std::vector<int>{0});
  EXPECT_TRUE(separators.follows);
  const Stmt gathered = gather_sums(model, program.body, sums_in(program), separators, cpu_machine());
  ASSERT_TRUE(gathered);
  const Program result = ir::with_body(program, gathered);
  EXPECT_EQ(ir::print(result), dedented(R"(
    program p(n, k)
      input  f32 d_y[n]
      input  f32 w[k]
      inout  f32 d_x[n + k - 1]
    for c0 in 0..k + n - 1:
      for j in max(0, c0 - n + 1)..min(k, c0 + 1):
        d_x[c0] += d_y[c0 - j]*w[j]
  )"));
}

TEST(GatherSums, HasNoSeparatorWhereDataChoose) {
  const ir::Program program = program_of(R"(
    program p(n, m)
      input  i32 index[n]
      input  f32 d_y[n]
      inout  f32 d_x[m]
      fact   index in 0..m
  )",
                                         R"(
    for i in 0..n:
      d_x[index[i]] += d_y[i]
  )");
  const Separators separators = separators_of(model_of(program), program.body, sums_in(program));
  EXPECT_TRUE(separators.dims.empty());
  EXPECT_TRUE(separators.follows);
}

TEST(LeafOrder, SplitsSumsFromWhatComputesTheirTerms) {
  const ir::Program program = program_of(R"(
    program p(n)
      input  f32 x[n]
      output f32 y[n]
      inout  f32 d[n + 1]
  )",
                                         R"(
    for i in 0..n:
      y[i] = x[i]*2
      d[i + 1] += y[i]
  )");
  const std::vector<Stmt> sums = sums_in(program);
  const auto parts = LeafOrder(model_of(program), program.body).split({{sums[0].get()}});
  ASSERT_TRUE(parts && parts->size() == 2);
  EXPECT_EQ((*parts)[0].group, -1) << "the terms come first";
  EXPECT_EQ((*parts)[1].group, 0);
  EXPECT_TRUE((*parts)[1].leaves.count(sums[0].get()));
}

TEST(LeafOrder, DoesNotSplitARecurrence) {
  const ir::Program program = program_of(R"(
    program p(n)
      output f32 y[n]
      inout  f32 d[n + 1]
  )",
                                         R"(
    for i in 0..n:
      y[i] = d[i]*2
      d[i + 1] += y[i]
  )");
  const LeafOrder order(model_of(program), program.body);
  EXPECT_FALSE(order.split({{sums_in(program)[0].get()}})) << "the next term needs this sum";
}

TEST(PartialResults, CoverTheElementsInWhichSumsMove) {
  const ir::Program program = program_of(R"(
    program p(n, k)
      input  f32 x[n + k]
      inout  f32 d_w[2, k]
  )",
                                         R"(
    for i in 0..n:
      for j in 0..k:
        d_w[1, j] += x[i + j]
  )");
  const Partial partial = partial_of(model_of(program), sums_in(program));
  ASSERT_EQ(partial.fixed.size(), 2u);
  EXPECT_EQ(ir::print(partial.fixed[0]), "1");
  EXPECT_FALSE(partial.fixed[1]);
  ASSERT_EQ(partial.shape.size(), 1u);
  EXPECT_EQ(ir::print(partial.shape[0]), "k");
  EXPECT_FALSE(partial.is_small());
  const std::vector<ir::Expr> work = work_of(program, model_of(program), sums_in(program)[0]);
  EXPECT_EQ(ir::print(product(work)), "n*k");
  EXPECT_EQ(ir::print(blocks_for(work, partial.shape, false)), "n//4");
}

// Bands and triangles have iterations, too: with none of them counted, one block would be left.
TEST(PartialResults, ThereAreBlocksForTheWorkOfLoopsThatMoveWithOthers) {
  const char* declarations = R"(
    program p(n, r)
      input  f32 x[n]
      inout  f32 y[n]
  )";
  const auto work = [&](const char* body) {
    const ir::Program program = program_of(declarations, body);
    return ir::print(product(work_of(program, model_of(program), sums_in(program)[0])));
  };
  EXPECT_EQ(work("for i in 0..n:\n  for j in i + 1..n:\n    y[j] += x[i]\n"), "n*((n - 1)//2)");
  EXPECT_EQ(work("for i in 0..n:\n  for j in max(i - r, 0)..min(i + r + 1, n):\n    y[j] += x[i]\n"),
            "n*max(min(2*r + 1, n), 0)");
  const Program triangle = program_of(declarations, "for i in 0..n:\n  for j in i + 1..n:\n    y[j] += x[i]\n");
  EXPECT_EQ(ir::print(partial_blocks(triangle, model_of(triangle), *triangle.body.as<ir::For>(),
                                     {partial_of(model_of(triangle), sums_in(triangle))}, cpu_machine())),
            "max(min(min(64, (n - 1)//2//4), n//64), 1)");
}

// 5 divides the number, not what is left of a product that wraps around.
TEST(GatherSums, AHashedElementIsNotFoundByItsIndex) {
  const PassResult result = run_passes("restructure_sums", R"(
    program p(m)
      input  f64 x[m]
      output f64 y[m]
    )",
                                       R"(
    local f64 h[5, m]
    for k in 0..5:
      for j in 0..m:
        h[k, j] = 0
    for i in 0..3:
      for j in 0..m:
        h[(i + 1)*6364136223846793005%5, j] += x[j]
    for j in 0..m:
      y[j] = h[0, j]
    )",
                                       gpu_machine());
  const Buffers expected = run(result.before, {{"m", 2}}), actual = run(result.after, {{"m", 2}});
  for (std::int64_t k = 0; k < expected.at("y").size(); ++k)
    EXPECT_DOUBLE_EQ(actual.at("y").get(k), expected.at("y").get(k)) << k;
}

TEST(GatherSums, SeveralSlicesOfOneNestHaveIteratorsOfTheirOwn) {
  const PassResult result = run_passes("restructure_sums", R"(
    program p(n, p)
      output f32 y[p]
    )",
                                       R"(
    for i in 0..p:
      for j in 0..p:
        for k in 0..n:
          y[0] += 0.5
        y[0] += 0.5
        y[j] += 0.5
      y[0] = 0.5
    )");
  EXPECT_NO_THROW(ir::verify(result.after, "restructure_sums"));
}

}  // namespace
}  // namespace loopgrad::transforms
