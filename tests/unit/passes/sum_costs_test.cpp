// What ways of doing a sum are estimated to cost.
#include "tests/unit/passes/parts.h"
#include "transforms/sums/gather_sums.h"
#include "transforms/sums/sum_cost.h"

namespace loopgrad::transforms {
namespace {

constexpr const char* convolution = R"(
  program p(n, k)
    input  f32 d_y[n]
    input  f32 w[k]
    input  i32 at[n]
    inout  f32 d_x[n + k - 1]
    inout  f32 total
)";

/// The sums of one nest, at sizes that somebody has stated.
class Costs {
 public:
  Costs(const std::string& body, SizeEstimates stated, const Machine& on = gpu_machine())
      : program(program_of(convolution, body)), sizes(std::move(stated)), machine(on) {
    ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
      if (s.kind() == ir::Kind::Reduce) sums.push_back(s);
    });
  }
  Separators separators() const { return separators_of(model_of(program), program.body, sums); }

  const ir::Program program;
  const SizeEstimates sizes;
  const Machine machine;
  std::vector<ir::Stmt> sums;
  SumCosts costs{program, program.body, sizes, machine};
};

constexpr const char* gradient = "for i in 0..n:\n  for j in 0..k:\n    d_x[i + j] += d_y[i]*w[j]\n";
constexpr const char* one_total = "for i in 0..n:\n  total += d_y[i]\n";
constexpr const char* scatter = "for i in 0..n:\n  d_x[i64(at[i])] += d_y[i]\n";

TEST(SumCosts, GatheringRunsAsManyElementsAtOnceAsThereAre) {
  Costs c(gradient, {{"n", 100000}, {"k", 64}});
  const PlanCandidate gather = c.costs.gather(c.sums, c.separators(), {});
  EXPECT_EQ(gather.parallel, 100063);
  EXPECT_LT(gather.microseconds, c.costs.serial(c.sums).microseconds);
  EXPECT_EQ(c.costs.basis(), "k = 64, n = 100000");
  EXPECT_FALSE(c.costs.assumed());
}

TEST(SumCosts, PartialResultsOfOneTotalBeatOneThread) {
  Costs c(one_total, {{"n", 1000000}, {"k", 1}});
  EXPECT_LT(10 * c.costs.partials(c.sums, ir::int_const(1024)).microseconds, c.costs.serial(c.sums).microseconds);
}

// A block of iterations has all terms of the elements that its own iterations choose: no more threads than there are
// elements have something to do, however many blocks there are.
TEST(SumCosts, SplittingKeepsThreadsAtWorkThatHaveTerms) {
  const auto parallel = [](const char* body) {
    Costs c(body, {{"n", 1000}, {"k", 1000}});
    return c.costs.split(c.sums, c.separators(), {}, ir::int_const(100)).parallel;
  };
  EXPECT_LT(parallel("for i in 0..n:\n  for j in 0..k:\n    d_x[i] += d_y[i]*w[j]\n"), 3000);
  EXPECT_GT(parallel("for i in 0..n:\n  for j in 0..k:\n    d_x[j] += d_y[i]*w[j]\n"), 30000);
}

// The elements of a band are as many as its rows, not as its width.
TEST(SumCosts, GatheringTheColumnsOfABandHasAThreadForEach) {
  Costs c("for i in 0..n:\n  for j in max(i - k, 0)..min(i + k + 1, n):\n    d_x[j] += d_y[i]\n",
          {{"n", 100000}, {"k", 20}});
  const PlanCandidate gather = c.costs.gather(c.sums, c.separators(), {});
  EXPECT_GT(gather.parallel, 3000);
  EXPECT_LT(gather.operations, 1e7);
}

TEST(SumCosts, WholeNumbersTakeATimeForEachTermAndLongerOutsideOfTheCache) {
  const auto exact = [](std::int64_t n, std::int64_t k) {
    Costs c(scatter, {{"n", n}, {"k", k}});
    return c.costs.exact(c.sums).microseconds;
  };
  // There are n + k - 1 elements, and n terms.
  EXPECT_GT(exact(2000000, 10), 5 * exact(200000, 10));
  EXPECT_GT(exact(2000000, 100000000), 4 * exact(2000000, 10));
  EXPECT_LT(exact(2000000, 1000000), 1.5 * exact(2000000, 10));
  Costs c(scatter, {{"n", 2000000}, {"k", 1000}});
  EXPECT_LT(c.costs.exact(c.sums).microseconds, c.costs.segments(c.sums, {}).microseconds);
}

TEST(SumCosts, SortingTakesLongerWithMoreTermsAndNotWithMoreTargets) {
  const auto sorting = [](std::int64_t n, std::int64_t k) {
    Costs c(scatter, {{"n", n}, {"k", k}});
    return c.costs.segments(c.sums, {}).microseconds;
  };
  EXPECT_GT(sorting(10000000, 10), 5 * sorting(1000000, 10));
  EXPECT_LT(sorting(1000000, 1000000), 2 * sorting(1000000, 10));
}

TEST(SumCosts, KnowTheLoopsAroundEachOfManySums) {
  Costs c(R"(
    for i in 0..n:
      total += d_y[i]
      for j in 0..k:
        d_x[i + j] += d_y[i]*w[j]
  )",
          {{"n", 1000}, {"k", 50}});
  ASSERT_EQ(c.sums.size(), 2u);
  EXPECT_EQ(c.costs.serial({c.sums[0]}).operations, 1000);
  EXPECT_EQ(c.costs.serial({c.sums[1]}).operations, 1000 * 50 * 2);
}

TEST(SumCosts, OfSortingAreThoseOfItsTermsWhereNoDataChoose) {
  Costs c(one_total, {{"n", 1000000}, {"k", 1}});
  EXPECT_FALSE(scatter_form(c.program, c.program.body));
  EXPECT_GT(c.costs.segments(c.sums, {}).microseconds, 0);
  EXPECT_EQ(c.costs.segments(c.sums, {}).operations, c.costs.serial(c.sums).operations);
}

}  // namespace
}  // namespace loopgrad::transforms
