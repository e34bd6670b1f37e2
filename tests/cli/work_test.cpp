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

TEST(CountWork, RowsThatAnIndexChooses) {
  ProgramBuilder p("chosen_rows");
  const auto n = p.size("n"), e = p.size("e"), m = p.size("m");
  const auto ptr = p.input<int>("ptr", {n + 1}), row = p.input<int>("row", {m}), skip = p.input<int>("skip", {m});
  const auto x = p.input<float>("x", {e}), y = p.output<float>("y", {m});
  p.csr(ptr, e), p.in_range(row, 0, n);
  for (auto k : p.loop("k", m)) {
    y(k) = 0.0f;
    for (auto i : p.loop("i", ptr(row(k)), ptr(row(k) + 1) - skip(k))) y(k) += x(i);
  }
  const Work work = count_work(p.build(), {{"n", 10}, {"e", 500}, {"m", 7}}, {}, WorkCounter::Unknown::Likely);
  EXPECT_DOUBLE_EQ(work.flops, 7.0 * 500 / 10);
}

TEST(CountWork, RowsOfAGraph) {
  const double v = 11, e = 40, d = 5;
  const Work work = work_of(programs::gat(), {{"V", 11}, {"E", 40}, {"D", 5}});
  // h = x W, its two projections; for an edge score, maximum, exponential, sum and the weighted rows. Of the slope's
  // two sides the cheaper one counts.
  EXPECT_DOUBLE_EQ(work.flops, v * (2 * d * d + 4 * d) + e * (1 + 1 + 2 + 1) + 3 * e * d);
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

// What would take years iteration by iteration.

TEST(CountWork, SumsUpTrianglesWithoutWalkingThem) {
  // As above, in closed form: n^3/3 + n^2/2 + n/6 operations.
  const double n = 3e6;
  const Program program = programs::cholesky().build();
  const Work work = count_work(program, {{"n", 3'000'000}}, {});
  EXPECT_NEAR(work.flops / (n * n * n / 3 + n * n / 2 + n / 6), 1, 1e-9);
  EXPECT_TRUE(work.exact);
}

/// Sums over a band of 2 w + 1 columns, cut off at the borders, but for the first row and the last column.
ProgramEntry banded() {
  return {.name = "banded",
          .summary = "",
          .build =
              [] {
                ProgramBuilder p("banded");
                auto n = p.size("n"), w = p.size("w");
                auto x = p.input<float>("x", {n});
                auto y = p.output<float>("y", {n});
                for (auto i : p.loop("i", 0, n)) {
                  y(i) = 0.0f;
                  for (auto j : p.loop("j", max(0, i - w), min(n, i + w + 1)))
                    p.when(i > 0 && j < n - 1, [&] { y(i) += x(j) * x(j); });
                }
                return p.build();
              },
          .sizes = {}};
}

double terms_of_band(double n, double w) {
  const double all = n * (2 * w + 1) - w * (w + 1);
  return all - 2 * (w + 1);  // those of the first row and of the last column
}

TEST(CountWork, KnowsWhereBandsAndBordersEnd) {
  for (const auto& [n, w] : {std::pair<std::int64_t, std::int64_t>{40, 3}, {1'000'000'000'000, 1'000'000}}) {
    const Work work = count_work(banded().build(), {{"n", n}, {"w", w}}, {});
    EXPECT_NEAR(work.flops / (2 * terms_of_band(static_cast<double>(n), static_cast<double>(w))), 1, 1e-9) << n;
    EXPECT_TRUE(work.exact);
  }
}

TEST(CountWork, TakesTheAverageRowWhereFactsTellIt) {
  const double v = 1e9, e = 1e10, d = 5;
  const Work work =
      count_work(programs::csr_sum().build(), {{"V", 1'000'000'000}, {"E", 10'000'000'000}, {"D", 5}}, {});
  EXPECT_NEAR(work.flops, 2 * e * d, 1e-6 * e);
  EXPECT_GT(work.bytes, 4 * (v + e));
  EXPECT_TRUE(work.exact);
}

TEST(CountWork, CountsWhatIsLikelyWhereItIsAsked) {
  ProgramBuilder p("likely");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto first = p.input<int>("first", {n}), last = p.input<int>("last", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    p.when(x(i) > 0, [&] { y(i) += x(i) * x(i); });
    for (auto j : p.loop("j", first(i), last(i), {.at_most = {Value(8)}})) y(i) += x(j) * 2.0f;
  }
  const Program program = p.build();
  const Work least = count_work(program, {{"n", 1000}}, {}),
             likely = count_work(program, {{"n", 1000}}, {}, WorkCounter::Unknown::Likely);
  EXPECT_EQ(least.flops, 0);
  EXPECT_GT(likely.flops, 1000.0 * 2);
  EXPECT_LE(likely.flops, 1000.0 * (1 + 2 * 8));
  EXPECT_FALSE(least.exact || likely.exact);
}

/// A shared value is computed once, however many places it is read from.
TEST(CountWork, DoesNotUnfoldSharedValues) {
  ProgramBuilder p("doubled");
  auto x = p.input<float>("x", {});
  auto y = p.output<float>("y", {});
  Value v = x();
  for (int k = 0; k < 60; ++k) v = v + v;
  y() = v;
  EXPECT_EQ(count_work(p.build(), {}, {}).flops, 60);
}

struct Number {
  double value = 0;
  void add(const Number& other, double times) { value += times * other.value; }
  bool differs_from(const Number& other) const { return differ(value, other.value); }
};

TEST(LoopSum, SamplesWhatIsNoPieceOfAPolynomial) {
  int evaluations = 0;
  const auto noise = [&](std::int64_t i) {
    ++evaluations;
    return Number{1 + static_cast<double>((i * 2654435761u) % 1000) / 1000};
  };
  LoopSum<Number, decltype(noise)> sum(noise, 16);
  const double all = sum.of(0, 1'000'000'000, {}).value;
  EXPECT_NEAR(all / 1.5e9, 1, 0.2);
  EXPECT_FALSE(sum.is_exact());
  EXPECT_LT(evaluations, 300);
}

TEST(LoopSum, FindsPiecesThatNobodyNamed) {
  const auto bent = [](std::int64_t i) {
    const auto x = static_cast<double>(i);
    return Number{i < 123456 ? x * x : 7.0};
  };
  LoopSum<Number, decltype(bent)> sum(bent, 64);
  const double n = 123456, expected = (n - 1) * n * (2 * n - 1) / 6 + 7 * (1e6 - n);
  EXPECT_NEAR(sum.of(0, 1'000'000, {}).value / expected, 1, 1e-9);
  EXPECT_TRUE(sum.is_exact());
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
