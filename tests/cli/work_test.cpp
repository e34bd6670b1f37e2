#include "tools/cli/work.h"

#include "dsl/ir/verifier.h"
#include "tools/cli/promote.h"
#include "tools/programs/programs.h"

#include <gtest/gtest.h>

namespace loopgrad::cli {
namespace {

Work work_of(const ProgramEntry& entry, const Sizes& sizes) {
  const Program program = entry.build();
  return count_work(program, sizes, make_inputs(entry, program, sizes, 1));
}

TEST(CountWork, DenseLoops) {
  const Work work = work_of(programs::conv1d(), {{"n", 100}, {"k", 7}});
  EXPECT_EQ(work.flops, 2.0 * 100 * 7);
  EXPECT_EQ(work.bytes, 4.0 * (106 + 7 + 100));
  EXPECT_TRUE(work.exact);
}

TEST(CountWork, TriangularLoops) {
  // Column j: j products and sums, a root, and for each row below j products and sums and a division.
  const double n = 9;
  double flops = 0;
  for (double j = 0; j < n; ++j) flops += 2 * j + 1 + (n - 1 - j) * (2 * j + 1);
  const Work work = work_of(programs::cholesky(), {{"n", 9}});
  EXPECT_EQ(work.flops, flops);
  EXPECT_EQ(work.bytes, 2 * 4 * n * n);
}

TEST(CountWork, RowsOfAGraph) {
  const double v = 11, e = 40, d = 5;
  const Work work = work_of(programs::gat(), {{"V", 11}, {"E", 40}, {"D", 5}});
  // h = x W, its two projections; for an edge score, maximum, exponential, sum and the weighted rows. Of the slope's
  // two sides the cheaper one counts.
  EXPECT_EQ(work.flops, v * (2 * d * d + 4 * d) + e * (1 + 1 + 2 + 1) + 3 * e * d);
  EXPECT_FALSE(work.exact);
}

TEST(CountWork, DoesNotWalkALoopForAConditionThatFloatsDecide) {
  ProgramBuilder p("far");
  auto n = p.size("n");
  auto far = p.input<float>("far", {});
  auto y = p.output<float>("y", {});
  y() = 0.0f;
  for (auto i : p.loop("i", 0, n))
    p.when(cast<float>(i) < far(), [&] { y() += 1.0f; }).otherwise([&] { y() += far(); });
  const Work work = work_of({.name = "far", .summary = "", .build = [&] { return p.build(); }, .sizes = {}},
                            {{"n", 1'000'000'000'000}});  // years, one by one
  EXPECT_EQ(work.flops, 1e12);
  EXPECT_FALSE(work.exact);
}

TEST(CountWork, CountsOfAnInputNoMoreThanIsRead) {
  const Work work = work_of(programs::embedding(), {{"n", 3}, {"rows", 1000}, {"d", 8}});
  EXPECT_EQ(work.bytes, 4.0 * (3 + 3 * 8 + 3 * 8));
}

TEST(PromoteToF64, LeavesNoSinglePrecision) {
  for (const ProgramEntry& entry : programs::all()) {
    const Program program = promote_to_f64(entry.build());
    ir::verify(program.ir(), "promotion");
    EXPECT_EQ(program.str().find("f32"), std::string::npos) << program.str();
  }
}

TEST(RelativeError, IsRelativeToTheLargestElement) {
  HostArray a(ScalarType::F32, {2}), b(ScalarType::F64, {2});
  b.set(0, 4);
  b.set(1, 1);
  a.set(0, 4);
  a.set(1, 3);
  EXPECT_EQ(relative_error(a, b), 0.5);
  a.set(1, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(relative_error(a, b), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace loopgrad::cli
