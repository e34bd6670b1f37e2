// The passes before and inside the mapping to a GPU: each test fails without its pass, and what the pass makes computes
// the same in the checked interpreter at small and odd sizes.
#include "backends/cuda/emitter.h"
#include "tests/unit/transforms/lowered.h"
#include "transforms/gpu/map_to_gpu.h"
#include "transforms/gpu/search_loops.h"
#include "transforms/gpu/split_kernels.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

/// What `pass` makes of a lowered program.
Lowered passed(const Program& program, ir::Program (*pass)(const ir::Program&)) {
  Lowered result = lowered(program);
  result.after = pass(result.after);
  ir::verify(result.after, "pass");
  result.text = ir::print(result.after.body);
  return result;
}

ir::Program mapped(const ir::Program& program) { return map_to_gpu(program); }

Program largest_takes_all() {
  ProgramBuilder p("largest_takes_all");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n, m});
  auto top = p.input<double>("top", {n});
  auto d = p.inout<double>("d", {n});
  auto dx = p.inout<double>("dx", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 1, m))
      p.when(x(i, j) > top(i), [&] {
        dx(i, j) += d(i);
        d(i) = 0.0;
      });
  return p.build();
}

TEST(SearchLoops, TheFirstIterationThatFitsIsFoundByAll) {
  const Lowered result = passed(largest_takes_all(), search_loops);
  EXPECT_NE(result.text.find("match min= select("), std::string::npos) << result.text;
  for (const std::int64_t m : {1, 2, 9}) expect_same_results(result, {{"n", 7}, {"m", m}});
}

TEST(SearchLoops, ALoopThatGoesOnAfterAFitIsLeftAlone) {
  ProgramBuilder p("goes_on");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto d = p.inout<double>("d", {});
  auto dx = p.inout<double>("dx", {n});
  for (auto j : p.loop("j", 0, n))
    p.when(x(j) > 0.0, [&] {
      dx(j) += d() + 1.0;  // not zero even when d is
      d() = 0.0;
    });
  EXPECT_EQ(passed(p.build(), search_loops).text.find("match"), std::string::npos);
}

/// The interior of a cube by one formula, its first face by another.
Program faces() {
  ProgramBuilder p("faces");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n, n, n});
  auto b = p.inout<double>("b", {n, n, n});
  for (auto i : p.loop("i", 0, n)) {
    p.when(i > 0, [&] {
      for (auto j : p.loop("j", 0, n))
        for (auto k : p.loop("k", 0, n)) b(i, j, k) = 2.0 * a(i, j, k);
    });
    for (auto k : p.loop("l", 0, n)) b(i, 0, k) += 1.0;
  }
  return p.build();
}

TEST(SplitKernels, PartsOfAParallelLoopBecomeNestsOfTheirOwn) {
  const Lowered result = passed(faces(), split_kernels);
  EXPECT_EQ(outer_parallel_loops(result.after.body).size(), 2u) << result.text;
  for (const std::int64_t n : {1, 2, 5}) expect_same_results(result, {{"n", n}});
}

TEST(SplitKernels, ConditionsOnIteratorsNarrowTheGrid) {
  const Lowered result = passed(faces(), mapped);
  EXPECT_NE(result.text.find("grid for i in 1..n"), std::string::npos) << result.text;
  for (const std::int64_t n : {1, 2, 5}) expect_same_results(result, {{"n", n}});
}

TEST(SplitKernels, FillsThatOverlapAreParallelOneByOne) {
  ProgramBuilder p("border");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n, n});
  for (auto i : p.loop("i", 0, n)) {
    a(i, 0) = 0.0;
    a(1, i) = 0.0;
  }
  const Program program = p.build();
  EXPECT_TRUE(outer_parallel_loops(lowered(program).after.body).empty());
  const Lowered result = passed(program, split_kernels);
  EXPECT_EQ(outer_parallel_loops(result.after.body).size(), 2u) << result.text;
  expect_same_results(result, {{"n", 6}});
}

TEST(OwnScatters, EachOwnerTakesItsShareOfTheTargets) {
  ProgramBuilder p("scatter");
  auto n = p.size("n"), rows = p.size("rows"), m = p.size("m");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, rows);
  auto a = p.input<double>("a", {n, m});
  auto t = p.inout<double>("t", {rows, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) t(idx(i), j) += a(i, j);
  const Lowered result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("grid for block_y"), std::string::npos) << result.text;  // owners and columns
  EXPECT_NE(result.text.find("idx[i]"), std::string::npos);
  for (const std::int64_t rows_value : {1, 5, 700})
    expect_same_results(result, {{"n", 40}, {"rows", rows_value}, {"m", 3}});
}

TEST(ParallelNest, DependentBoundsLeaveAGuard) {
  ProgramBuilder p("triangle");
  auto n = p.size("n");
  auto a = p.output<double>("a", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) a(i, j) = 1.0;
  for (auto i : p.loop("k", 0, n))
    for (auto j : p.loop("l", 0, i)) a(i, j) = 2.0;
  const Lowered result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("if l < k"), std::string::npos) << result.text;
  for (const std::int64_t n_value : {1, 2, 9}) expect_same_results(result, {{"n", n_value}});
}

Program scaled(std::int64_t from) {
  ProgramBuilder p("scaled");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.inout<float>("b", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", from, m)) b(i, j) += 2.0f * a(i, j);
  return p.build();
}

Program transposed() {
  ProgramBuilder p("transposed");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.output<float>("b", {m, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) b(j, i) = a(i, j);
  return p.build();
}

std::string cuda_of(const Lowered& result) { return backend::emit_cuda({result.after}).source; }

TEST(Chunks, ThreadsTakeFourNeighboursWithWideAccesses) {
  const Lowered result = passed(scaled(0), mapped);
  const std::string code = cuda_of(result);
  EXPECT_NE(code.find("copy_four(a_wide + 0, &a[i * m + j_start]);"), std::string::npos) << code;
  EXPECT_NE(code.find("copy_four(&b[i * m + j_start], b_wide + 0);"), std::string::npos) << code;
  for (const std::int64_t m : {1, 3, 4, 5, 8, 1030}) expect_same_results(result, {{"n", 3}, {"m", m}});
}

TEST(Chunks, BeginWhereTheAccessesAreAligned) {
  const Lowered result = passed(scaled(1), mapped);
  EXPECT_NE(cuda_of(result).find("j_start >= 1 && "), std::string::npos) << result.text;
  for (const std::int64_t m : {1, 2, 4, 5, 9, 1030}) expect_same_results(result, {{"n", 3}, {"m", m}});
}

TEST(Chunks, AreNotTakenWhereNeighboursAreReadToo) {
  ProgramBuilder p("smoothed");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.inout<float>("b", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 1, m - 1)) b(i, j) = a(i, j - 1) + a(i, j + 1);
  const Lowered result = passed(p.build(), mapped);
  const std::string code = cuda_of(result);
  EXPECT_EQ(code.find("copy_four"), std::string::npos) << code;
  EXPECT_NE(code.find("a[a_at + 2]"), std::string::npos) << code;  // addressed from its neighbour
  for (const std::int64_t columns : {2, 3, 9}) expect_same_results(result, {{"n", 3}, {"m", columns}});
}

TEST(Tiles, ATransposeIsWideOnBothSides) {
  const Lowered result = passed(transposed(), mapped);
  const std::string code = cuda_of(result);
  EXPECT_NE(code.find("alignas(16) float a_wide[16];"), std::string::npos) << code;
  EXPECT_NE(code.find("alignas(16) float b_wide[16];"), std::string::npos) << code;
  // Rows are equally far apart, so the second tells whether all are aligned.
  EXPECT_NE(code.find("is_aligned(&a[(i_start + 1) * m + j_start])"), std::string::npos) << code;
  for (const auto& [n, m] : {std::pair{1, 1}, {4, 4}, {5, 7}, {37, 70}}) {
    expect_same_results(result, {{"n", n}, {"m", m}});
  }
}

}  // namespace
}  // namespace loopgrad::transforms
