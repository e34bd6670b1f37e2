// Columns: each thread takes a few iterations of a stencil along one loop.
#include "tests/unit/cuda/mapped.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

ir::Program mapped(const ir::Program& program) { return mapped_to_gpu(program); }

TEST(Columns, ThreadsTakeFourNeighboursOfAStencil) {
  ProgramBuilder p("smoothed");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto b = p.inout<float>("b", {n, m});
  for (auto i : p.loop("i", 1, n - 1))
    for (auto j : p.loop("j", 1, m - 1)) b(i, j) = a(i - 1, j) + a(i + 1, j) + a(i, j - 1) + a(i, j + 1);
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(cuda_of(result).find("for (index_t i_ = i_start_; i_ < i_start_ + 4; ++i_) {"), std::string::npos);
  for (const std::int64_t rows : {2, 3, 5, 6, 7, 11}) expect_same_results(result, {{"n", rows}, {"m", 6}});
}

TEST(Columns, RunAlongTheOutermostLoopOfAStencil) {
  ProgramBuilder p("smoothed");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<double>("a", {2, n, m, m});
  for (auto i : p.loop("i", 1, n - 1))
    for (auto j : p.loop("j", 1, m - 1))
      for (auto k : p.loop("k", 0, m)) {
        a(1, i, j, k) += a(0, i - 1, j, k) + a(0, i + 1, j, k);
        p.when(j > 1, [&] { a(1, i, j, k) += a(0, i, j - 1, k) - a(0, i, j + 1, k); });
      }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(cuda_of(result).find("for (index_t i_ = i_start_; i_ < i_start_ + 4; ++i_) {"), std::string::npos)
      << cuda_of(result);
  for (const std::int64_t rows : {2, 3, 6, 7, 11}) expect_same_results(result, {{"n", rows}, {"m", 5}});
}

TEST(Columns, AreShortWhereIterationsLoadMuch) {
  ProgramBuilder p("wide_stencil");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<double>("a", {2, n, m});
  for (auto i : p.loop("i", 4, n - 4))
    for (auto j : p.loop("j", 4, m - 4)) {
      Value sum = a(0, i, j);
      for (int k = 1; k <= 4; ++k)
        for (const int side : {-k, k})
          sum = sum + a(0, i + side, j) * a(0, i, j) + a(0, i, j + side) * a(0, i + side, j);
      a(1, i, j) = sum;
    }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(cuda_of(result).find("for (index_t i_ = i_start_; i_ < i_start_ + 2; ++i_) {"), std::string::npos)
      << cuda_of(result);
  for (const std::int64_t rows : {8, 9, 10, 11, 13}) expect_same_results(result, {{"n", rows}, {"m", 11}});
}

TEST(Columns, AreNotForIterationsThatStoreMoreThanTheyLoad) {
  ProgramBuilder p("spread_out");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {2, n, m + 1});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      y(0, i, j + 1) = x(i, j);
      y(1, i, j) = x(i, j);
    }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_EQ(cuda_of(result).find("_start"), std::string::npos) << cuda_of(result);
  for (const std::int64_t rows : {0, 1, 5}) expect_same_results(result, {{"n", rows}, {"m", 6}});
}

}  // namespace
}  // namespace loopgrad::transforms
