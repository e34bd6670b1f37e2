// The choice between ways of doing a sum, by estimates with the loop extents in them.
#include "tests/unit/transforms/lowered.h"

namespace loopgrad::transforms {
namespace {

LoweredProgram expecting(const Program& program, const Sizes& sizes) {
  LoweredProgram result;
  result.before = program.ir();
  result.after = lower_for(program.ir(), {.expected_sizes = sizes, .last = Part::Shared}, result.report).program;
  ir::verify(result.after, "lower");
  result.text = ir::print(result.after.body);
  return result;
}

/// A bias: every row adds to every element of a vector.
Program bias() {
  ProgramBuilder p("bias");
  auto rows = p.size("rows"), n = p.size("n");
  auto dy = p.input<float>("dy", {rows, n});
  auto db = p.inout<float>("db", {n});
  for (auto r : p.loop("r", 0, rows))
    for (auto j : p.loop("j", 0, n)) db(j) += dy(r, j);
  return p.build();
}

/// The weights of a stencil: few elements, a long sum.
Program weights() {
  ProgramBuilder p("weights");
  auto n = p.size("n"), m = p.size("m"), a = p.size("a"), b = p.size("b");
  auto dy = p.input<float>("dy", {n, m}), x = p.input<float>("x", {n + a, m + b});
  auto dw = p.inout<float>("dw", {a, b});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m))
      for (auto r : p.loop("r", 0, a))
        for (auto s : p.loop("s", 0, b)) dw(r, s) += dy(i, j) * x(i + r, j + s);
  return p.build();
}

const SumCandidate& candidate(const LoweredProgram& l, const std::string& plan) {
  for (const SumCandidate& c : l.report.sums.at(0).candidates) {
    if (c.plan == plan) return c;
  }
  throw std::out_of_range(plan);
}

TEST(SumCost, AWideVectorOfFewRowsIsGathered) {
  LoweredProgram l = expecting(bias(), {{"rows", 8}, {"n", 1 << 20}});
  EXPECT_EQ(plan_of(l.report, "db"), "gather") << l.text;
  EXPECT_NE(l.report.sums[0].reason.find("us of partials"), std::string::npos) << l.report.sums[0].reason;
  expect_same_results(l, {{"rows", 5}, {"n", 40}});
  EXPECT_LT(candidate(l, "gather").microseconds, candidate(l, "partials").microseconds / 2);
}

TEST(SumCost, ANarrowVectorOfManyRowsHasPartialSums) {
  LoweredProgram l = expecting(bias(), {{"rows", 1 << 20}, {"n", 8}});
  EXPECT_EQ(plan_of(l.report, "db"), "partials") << l.text;
  expect_same_results(l, {{"rows", 50}, {"n", 3}});
}

TEST(SumCost, FewWeightsOfALargeImageHavePartialSums) {
  Sizes sizes = {{"n", 1000}, {"m", 1000}, {"a", 2}, {"b", 2}};
  LoweredProgram l = expecting(weights(), sizes);
  EXPECT_EQ(plan_of(l.report, "dw"), "partials") << l.text;
  EXPECT_NE(l.report.sums[0].reason.find("us of gathering"), std::string::npos) << l.report.sums[0].reason;
  EXPECT_EQ(candidate(l, "gather").parallel, 4);
  EXPECT_EQ(candidate(l, "partials").parallel, 64);
  EXPECT_EQ(l.report.sums[0].basis, "a = 2, b = 2, m = 1000, n = 1000");
  expect_same_results(l, {{"n", 9}, {"m", 8}, {"a", 2}, {"b", 3}});
}

TEST(SumCost, BlocksWithoutIterationsDoNothing) {
  ProgramBuilder p("images");
  auto images = p.size("images"), n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {images, n, m});
  auto t = p.inout<float>("t", {m});
  for (auto [r, i, j] : p.loop({"r", images}, {"i", n}, {"j", m})) t(j) += a(r, i, j);
  const auto l = expecting(p.build(), {{"images", 4}, {"n", 1000}, {"m", 100}});
  // One for each term, and 64 partial results of each element: not as if each of the 64 blocks had an image.
  EXPECT_LT(candidate(l, "partials").operations, 1.1 * 4 * 1000 * 100);
  EXPECT_EQ(candidate(l, "partials").parallel, 4);
}

TEST(SumCost, WithoutSizesTheShapeDecides) {
  LoweredProgram l = expecting(weights(), {});
  EXPECT_EQ(plan_of(l.report, "dw"), "gather") << l.text;
  EXPECT_EQ(l.report.sums[0].basis, "a = 1024 (assumed), b = 1024 (assumed), m = 1024 (assumed), n = 1024 (assumed)");
  EXPECT_EQ(plan_of(expecting(bias(), {}).report, "db"), "partials");
}

TEST(SumCost, NoMoreOfAnArrayMovesThanThereIs) {
  ProgramBuilder p("packed");  // rows of a triangle one after the other
  auto n = p.size("n"), d = p.size("d");
  auto x = p.input<float>("x", {n, d});
  auto dl = p.inout<float>("dl", {d * (d + 1) / 2});
  for (auto i : p.loop("i", 0, n))
    for (auto r : p.loop("r", 0, d))
      for (auto c : p.loop("c", 0, r + 1)) dl(r * (r + 1) / 2 + c) += x(i, r) * x(i, c);
  const LoweredProgram l = expecting(p.build(), {{"n", 1000}, {"d", 30}});
  EXPECT_LT(candidate(l, "partials").bytes, 1e6) << l.text;  // x, and 64 blocks of 465 elements
  EXPECT_EQ(plan_of(l.report, "dl"), "partials") << l.text;
  expect_same_results(l, {{"n", 9}, {"d", 4}});
}

TEST(SumCost, AllPairsAreNotKeptForSumsIntoParticles) {
  ProgramBuilder p("pairs");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n, 3});
  auto force = p.inout<float>("force", {n, 3});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", i + 1, n)) {
      auto r2 = p.scalar<float>("r2");
      r2 = 0.1f;
      for (auto c : p.loop("c", 0, 3)) r2 += (x(i, c) - x(j, c)) * (x(i, c) - x(j, c));
      for (auto c : p.loop("c", 0, 3)) {
        force(i, c) += (x(i, c) - x(j, c)) / r2;
        force(j, c) -= (x(i, c) - x(j, c)) / r2;
      }
    }
  const LoweredProgram l = expecting(p.build(), {{"n", 2000}});
  EXPECT_EQ(plan_of(l.report, "force"), "partials") << l.text;
  EXPECT_EQ(l.text.find("r2_all"), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 9}});
}

TEST(SumCost, EstimatesCountWhatIsDone) {
  LoweredProgram l = expecting(bias(), {{"rows", 100}, {"n", 1000}});
  EXPECT_EQ(candidate(l, "gather").operations, 100 * 1000);
  EXPECT_EQ(candidate(l, "serial").parallel, 1);
  EXPECT_GE(candidate(l, "gather").bytes, 4 * 100 * 1000);  // dy is read once
  EXPECT_LE(candidate(l, "gather").bytes, 3 * 4 * 100 * 1000);
  EXPECT_GT(candidate(l, "atomic").microseconds, candidate(l, "gather").microseconds);
  EXPECT_FALSE(candidate(l, "atomic").note.empty());
}

}  // namespace
}  // namespace loopgrad::transforms
