// Partial results of elements that data choose: each test fails without the pass, and what it makes computes the same
// in the checked interpreter.
#include "transforms/sums/lane_copies.h"
#include "tests/unit/count_of.h"
#include "tests/unit/cuda/mapped.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

/// Blocks of partial results have about 4*bins iterations: with 20 bins some for all threads, and some for a few.
const std::vector<Sizes> all_sizes = {{{"n", 1000}, {"bins", 20}},
                                      {{"n", 65}, {"bins", 7}},
                                      {{"n", 40}, {"bins", 1}},
                                      {{"n", 0}, {"bins", 3}},
                                      {{"n", 90}, {"bins", 500}}};

void expect_copies(const Program& program, const char* array) {
  const LoweredProgram result = mapped_to_small_gpu(program);
  const std::string copies = std::string(array) + "_part_copy[bins, 33]";
  EXPECT_NE(result.text.find(copies), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("threads for lane in 0..32"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("if bins <= "), std::string::npos) << result.text;
  for (const Sizes& sizes : all_sizes) expect_same_results(result, sizes);
}

TEST(LaneCopies, EachThreadOfABlockAddsToACopy) {
  ProgramBuilder p("counts");
  auto n = p.size("n"), bins = p.size("bins");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, bins);
  auto a = p.input<double>("a", {n});
  auto h = p.inout<double>("h", {bins});
  for (auto i : p.loop("i", 0, n)) {
    // A value of its own keeps the loop from being sorted by targets.
    auto twice = p.scalar<double>("twice");
    twice = 2.0 * a(i);
    h(idx(i)) += twice * a(i);
    h(bins - 1 - idx(i)) += twice;
  }
  expect_copies(p.build(), "h");
}

TEST(LaneCopies, StandBesideWhatEachIterationHasToItself) {
  ProgramBuilder p("deposit");
  auto n = p.size("n");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, 90);
  auto a = p.inout<double>("a", {n});
  auto h = p.inout<double>("h", {90}), g = p.inout<double>("g", {90});
  for (auto i : p.loop("i", 0, n)) {
    a(i) = a(i) * 0.5;
    auto twice = p.scalar<double>("twice");
    twice = 2.0 * a(i);
    h(idx(i)) += twice * a(i);
    h(89 - idx(i)) += twice;
    g(idx(i)) += a(i);
    g(89 - idx(i)) += a(i) + twice;
    a(i) += 1.0;
  }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_NE(result.text.find("h_part_copy[90, 33]"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("g_part_copy[90, 33]"), std::string::npos) << result.text;
  for (const std::int64_t size : {0, 1, 65, 1000}) expect_same_results(result, {{"n", size}});
}

TEST(LaneCopies, AreNotForIterationsThatHaveMoreInCommon) {
  ProgramBuilder p("walk");
  auto n = p.size("n"), bins = p.size("bins");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, bins);
  auto a = p.inout<double>("a", {n + 1});
  auto h = p.inout<double>("h", {bins});
  for (auto i : p.loop("i", 0, n)) {
    a(i + 1) = sin(a(i));  // linear steps would be a scan, apart from the rest
    h(idx(i)) += a(i + 1);
    h(bins - 1 - idx(i)) += a(i);
  }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_EQ(result.text.find("_copy["), std::string::npos) << result.text;
  for (const Sizes& sizes : all_sizes) expect_same_results(result, sizes);
}

TEST(LaneCopies, LargestValuesStartFromTheSmallest) {
  ProgramBuilder p("tops");
  auto n = p.size("n"), bins = p.size("bins");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, bins);
  auto a = p.input<double>("a", {n});
  auto h = p.inout<double>("h", {bins});
  for (auto i : p.loop("i", 0, n)) {
    auto less = p.scalar<double>("less");
    less = a(i) - 3.0;
    h(idx(i)).max_with(less);
    h(bins - 1 - idx(i)).max_with(less - a(i));
  }
  expect_copies(p.build(), "h");
}

TEST(LaneCopies, AreTakenForFewElementsAndWholeNumbersForMany) {
  ProgramBuilder p("lone_counts");
  auto n = p.size("n"), bins = p.size("bins");
  auto idx = p.input<std::int32_t>("idx", {n});
  p.in_range(idx, 0, bins);
  auto a = p.input<double>("a", {n});
  auto h = p.inout<double>("h", {bins});
  for (auto i : p.loop("i", 0, n)) h(idx(i)) += a(i);
  const Program program = p.build();
  expect_copies(program, "h");
  EXPECT_NE(mapped_to_small_gpu(program).text.find("whole_h[bins]"), std::string::npos) << "whole numbers for others";
}

}  // namespace
}  // namespace loopgrad::transforms
