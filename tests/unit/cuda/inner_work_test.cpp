// Parallel loops of a block over short sums: threads take iterations of the loop, or share each sum; sizes decide.
#include "tests/unit/cuda/mapped.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

/// Scores of each row against all others, and their largest; with `triangle`, sums inside of sums of other lengths.
Program scores(bool triangle) {
  ProgramBuilder p("scores");
  auto n = p.size("n"), m = p.size("m"), d = p.size("d");
  auto q = p.input<float>("q", {n, d});
  auto k = p.input<float>("k", {m, d});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.local<float>("s", {m});
    for (auto j : p.loop("j", 0, m)) {
      s(j) = 0.0f;
      for (auto l : p.loop("l", 0, d)) {
        if (!triangle) {
          s(j) += q(i, l) * k(j, l);
          continue;
        }
        auto inner = p.scalar<float>("inner");
        inner = 0.0f;
        for (auto r : p.loop("r", 0, l)) inner += q(i, r) - k(j, r);
        s(j) += inner * inner;
      }
    }
    y(i) = -1e30f;
    for (auto j : p.loop("j", 0, m)) y(i).max_with(s(j));
  }
  return p.build();
}

TEST(InnerWork, SizesDecideWhetherThreadsShareSumsOrTakeThemWhole) {
  const LoweredProgram result = mapped_to_small_gpu(scores(false));
  EXPECT_NE(result.text.find("min(m, threads)*max(threads//128, 1)"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("s_own"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("s_part"), std::string::npos) << result.text;
  for (const std::int64_t m : {0, 1, 5, 37})
    for (const std::int64_t d : {0, 1, 7, 40}) expect_same_results(result, {{"n", 3}, {"m", m}, {"d", d}});
}

TEST(InnerWork, LoopsInsideOfTheirOwnLengthsCountAtTheirLongest) {
  const LoweredProgram result = mapped_to_small_gpu(scores(true));
  EXPECT_NE(result.text.find("max(d, 0)*max(d - 1, 0)"), std::string::npos) << result.text;
  for (const std::int64_t m : {0, 5, 37})
    for (const std::int64_t d : {0, 7, 40}) expect_same_results(result, {{"n", 2}, {"m", m}, {"d", d}});
}

/// Partial results of one term each, in every step of a long loop: threads take blocks of terms whole.
TEST(InnerWork, PartsOfARangeAreAsShortAsTheyAre) {
  ProgramBuilder p("tree");
  auto n = p.size("n"), d = p.size("d");
  auto parent = p.input<std::int32_t>("parent", {n});
  p.in_range(parent, 0, n);
  auto x = p.inout<float>("x", {n, d}), w = p.inout<float>("w", {n});
  for (auto i : p.loop("i", 0, n))
    for (auto k : p.loop("k", 0, d)) {
      w(i) += 0.5f * x(i, k);
      x(parent(i), k) += 0.1f * x(i, k);
    }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_NE(result.text.find("w_own_own"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("w_own_all"), std::string::npos) << result.text;
  for (const std::int64_t width : {0, 1, 11, 300}) expect_same_results(result, {{"n", 5}, {"d", width}});
}

/// A condition keeps the sums of different iterations apart: only the last one of a parallel loop adds.
TEST(InnerWork, ThreadsWithNothingToAddLeaveTheSumOfAnotherAlone) {
  ProgramBuilder p("last");
  auto q = p.size("q"), m = p.size("m"), n = p.size("n");
  auto x = p.input<float>("x", {q});
  auto y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", 0, q / 2))
    for (auto j : p.loop("j", 0, m + 1))
      for (auto k : p.loop("k", 0, n)) y(k) += select(j + 1 < m + 1, 0.5f, x(min(i, q - 1)));
  const LoweredProgram result = mapped_to_small_gpu(differentiate(p.build()).backward);
  EXPECT_NE(result.text.find("d_x_now += "), std::string::npos) << result.text;
  for (const std::int64_t rows : {0, 5, 70})
    for (const std::int64_t length : {0, 1, 40}) expect_same_results(result, {{"q", 6}, {"m", rows}, {"n", length}});
}

/// Sums into a scalar of the block by iterations of a parallel loop: not every thread has as many as the others, or
/// adds.
TEST(InnerWork, ThreadsAddUpTheirIterationsBeforeTheyMeet) {
  for (const bool sometimes : {false, true}) {
    ProgramBuilder p("together");
    auto n = p.size("n");
    auto x = p.input<float>("x", {n});
    auto y = p.inout<float>("y", {n});
    auto total = p.inout<float>("total", {});
    for (auto i : p.loop("i", 0, n)) {
      auto v = p.scalar<float>("v", tanh(0.5f * total()));
      for (auto j : p.loop("j", 1, n)) {
        if (sometimes) p.when(x(j) > 0.0f, [&] { y(i) += v * x(0); });
        else y(i) += v * x(0);
      }
      total() = sin(y(n - 1 - i));
    }
    const Program backward = differentiate(p.build(), {.variant = Variant::Atomic}).backward;
    const LoweredProgram result = mapped_to_small_gpu(backward, SumMode::Atomic);
    EXPECT_NE(result.text.find("d_v_part +="), std::string::npos) << result.text;
    EXPECT_NE(result.text.find("d_x[0] += (atomic)"), std::string::npos) << result.text;
    for (const std::int64_t length : {0, 1, 2, 5, 70}) expect_same_results(result, {{"n", length}});
  }
}

}  // namespace
}  // namespace loopgrad::transforms
