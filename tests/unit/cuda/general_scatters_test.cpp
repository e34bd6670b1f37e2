// Sums into elements that data choose, in all kinds of nests: they are sorted, and compute the same in the checked
// interpreter.
#include "tests/unit/count_of.h"
#include "tests/unit/cuda/mapped.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

void expect_sorted(const Program& program, const std::vector<Sizes>& all_sizes, int sorts = 1) {
  const LoweredProgram result = mapped_to_small_gpu(program, SumMode::Restructured, sorting_gpu());
  EXPECT_EQ(count_of(result.text, "local i64 words["), sorts) << result.text;
  for (const Sizes& sizes : all_sizes) expect_same_results(result, sizes);
}

// The element and the term are a walk's own, which goes on after each sum: it cannot be sorted, but done twice. What an
// iteration has stored before it reads it is its own, too.
TEST(GeneralScatters, OfAWalkAreCountedWhereTheyStand) {
  ProgramBuilder p("walks");
  auto n = p.size("n"), cells = p.size("cells");
  auto from = p.input<float>("from", {n}), weight = p.input<float>("weight", {n});
  auto y = p.output<float>("y", {n}), t = p.inout<float>("t", {cells, cells});
  for (auto i : p.loop("i", n)) {
    auto at = p.scalar<int>("at");
    auto left = p.scalar<float>("left");
    at = max(min(cast<int>(from(i)), cast<int>(cells - 1)), 0);
    left = weight(i) * weight(i) + 0.1f;
    y(i) = 2.0f * left;
    for (auto s : p.loop_while("s", 2 * cells, [&](auto) { return left > 0.05f; })) {
      t(at, s % cells) += left * y(i);
      left *= 0.5f;
      at = (at * 5 + 1) % cast<int>(cells);
    }
  }
  const Program program = p.build();
  const LoweredProgram mapped = mapped_to_small_gpu(program, SumMode::Restructured, gpu_machine());
  EXPECT_EQ(count_of(mapped.text, "local i64 bins_t["), 1) << mapped.text;
  Machine machine = gpu_machine();
  machine.wide_floats = true;
  const LoweredProgram result = mapped_to_small_gpu(program, SumMode::Restructured, machine);
  EXPECT_EQ(count_of(result.text, "local i64 whole_t["), 1) << result.text;
  expect_same_results(result, {{"n", 37}, {"cells", 11}});
  expect_same_results(result, {{"n", 1}, {"cells", 1}});
  expect_same_results(result, {{"n", 0}, {"cells", 3}});
}

TEST(GeneralScatters, SeveralIndicesFromData) {
  ProgramBuilder p("cells");
  auto n = p.size("n"), rows = p.size("rows"), columns = p.size("columns"), m = p.size("m");
  auto a = p.input<std::int32_t>("a", {n}), b = p.input<std::int32_t>("b", {n});
  p.in_range(a, 0, rows);
  p.in_range(b, 0, columns);
  auto x = p.input<double>("x", {n, m});
  auto t = p.inout<double>("t", {rows, m, columns});
  for (auto i : p.loop("i", 0, n))
    for (auto k : p.loop("k", 0, m)) t(a(i), k, b(i)) += x(i, k);
  expect_sorted(p.build(), {{{"n", 40}, {"rows", 3}, {"columns", 5}, {"m", 4}},
                            {{"n", 1}, {"rows", 1}, {"columns", 2}, {"m", 1}},
                            {{"n", 0}, {"rows", 2}, {"columns", 2}, {"m", 2}}});
}

TEST(GeneralScatters, LoopsShorterThanTheirBound) {
  ProgramBuilder p("triangle");
  auto n = p.size("n"), rows = p.size("rows");
  auto a = p.input<std::int32_t>("a", {n});
  p.in_range(a, 0, rows);
  auto x = p.input<double>("x", {n});
  auto t = p.inout<double>("t", {rows, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, i)) t(a(i), (i + j) % n) += x(i) * x(j);
  expect_sorted(p.build(), {{{"n", 12}, {"rows", 4}}, {{"n", 1}, {"rows", 2}}});
}

/// Iterations for which the bound has room and the data none would all be looked at by a sort.
TEST(GeneralScatters, BoundsThatAreFarOffAreNotSorted) {
  const auto searches = [](std::int64_t most) {
    ProgramBuilder p("searches");
    const Value n = 50000, rows = 700;
    auto count = p.input<std::int32_t>("count", {n}), a = p.input<std::int32_t>("a", {n, 4});
    p.in_range(a, 0, rows);
    auto x = p.input<double>("x", {n});
    auto t = p.inout<double>("t", {rows, 2});
    for (auto i : p.loop("i", 0, n))
      for (auto k : p.loop("k", 0, count(i), {.at_most = {most}})) t(a(i, k % 4), 1) += x(i) * cast<double>(k);
    return mapped_to_small_gpu(p.build(), SumMode::Restructured, sorting_gpu());
  };
  const LoweredProgram close = searches(20), far = searches(2000);
  EXPECT_EQ(count_of(close.text, "local i64 words["), 1) << close.text;
  EXPECT_EQ(count_of(far.text, "local i64 words["), 0) << far.text;
  EXPECT_EQ(count_of(far.text, "local f64 t_part["), 1) << far.text;
}

TEST(GeneralScatters, ConditionsOnWhatTheProgramHasComputed) {
  ProgramBuilder p("chosen");
  auto n = p.size("n"), rows = p.size("rows");
  auto a = p.input<std::int32_t>("a", {n});
  p.in_range(a, 0, rows);
  auto x = p.input<double>("x", {n});
  auto t = p.inout<double>("t", {rows, rows});
  auto large = p.local<bool>("large", {n});
  for (auto i : p.loop("i", 0, n)) large(i) = x(i) > 0.2;
  for (auto i : p.loop("j", 0, n)) p.when(large(i), [&] { t(a(i), a(n - 1 - i)) += x(i); });
  expect_sorted(p.build(), {{{"n", 50}, {"rows", 4}}, {{"n", 2}, {"rows", 1}}});
}

TEST(GeneralScatters, BranchesAroundALoopOverColumns) {
  ProgramBuilder p("columns");
  auto n = p.size("n"), rows = p.size("rows"), m = p.size("m");
  auto a = p.input<std::int32_t>("a", {n});
  p.in_range(a, 0, rows);
  auto x = p.input<double>("x", {n, m});
  auto t = p.inout<double>("t", {rows, m});
  for (auto i : p.loop("i", 0, n))
    p.when(x(i, 0) > 0.2, [&] {
      for (auto k : p.loop("k", 0, m)) p.when(x(i, k) < 0.9, [&] { t(a(i), k) += x(i, k); });
    });
  expect_sorted(p.build(), {{{"n", 50}, {"rows", 4}, {"m", 3}}, {{"n", 2}, {"rows", 1}, {"m", 1}}});
}

TEST(GeneralScatters, BesideASumOverTheParallelLoopAroundThem) {
  ProgramBuilder p("channels");
  auto c = p.size("c"), n = p.size("n"), rows = p.size("rows");
  auto a = p.input<std::int32_t>("a", {n});
  p.in_range(a, 0, rows);
  auto x = p.input<double>("x", {c, n});
  auto mean = p.inout<double>("mean", {n});
  auto t = p.inout<double>("t", {c, rows});
  for (auto k : p.loop("k", 0, c))
    for (auto i : p.loop("i", 0, n)) {
      mean(i) += x(k, i);
      t(k, a(i)) += x(k, i) * x(k, i);
    }
  expect_sorted(p.build(), {{{"c", 3}, {"n", 40}, {"rows", 5}}, {{"c", 1}, {"n", 2}, {"rows", 1}}});
}

/// Nine cells of two components around a particle that moves.
TEST(GeneralScatters, ManyOfOneNest) {
  ProgramBuilder p("particles");
  auto n = p.size("n"), g = p.size("g");
  auto x = p.inout<double>("x", {n, 2});
  auto grid = p.inout<double>("grid", {g, g, 2});
  for (auto i : p.loop("i", 0, n)) {
    Value base[2];
    for (int k = 0; k < 2; ++k)
      base[k] = p.let("base", min(max(cast<std::int64_t>(x(i, k) * cast<double>(g)), 0), g - 3));
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b)
        for (int k = 0; k < 2; ++k) grid(base[0] + a, base[1] + b, k) += (1 + a * b + k) * x(i, k);
    for (int k = 0; k < 2; ++k) x(i, k) += 0.01 * x(i, 1 - k);
  }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_GT(count_of(result.text, "local i64 words["), 0) << "sorted: no budget ends for the size of the nest";
  expect_same_results(result, {{"n", 7}, {"g", 4}});
}

TEST(GeneralScatters, AreSortedOnceForAllStepsOfALoop) {
  ProgramBuilder p("steps");
  auto n = p.size("n"), rows = p.size("rows"), steps = p.size("steps");
  auto a = p.input<std::int32_t>("a", {n});
  p.in_range(a, 0, rows);
  auto x = p.inout<double>("x", {n});
  auto t = p.inout<double>("t", {rows, rows});
  for (auto s : p.loop("s", 0, steps)) {
    (void)s;
    for (auto i : p.loop("i", 0, n)) t(a(i), a(n - 1 - i)) += x(i);
    for (auto i : p.loop("j", 0, n)) x(i) = 0.5 * x(i) + t(0, 0);
  }
  const Program program = p.build();
  expect_sorted(program, {{{"n", 30}, {"rows", 3}, {"steps", 4}}});
  const std::string text = mapped_to_small_gpu(program).text;
  EXPECT_LT(text.find("words[0, "), text.find("for s in")) << text;
}

TEST(GeneralScatters, ElementsThatNothingIsAddedToStayAsTheyAre) {
  ProgramBuilder p("rest");
  auto n = p.size("n"), rows = p.size("rows");
  auto a = p.input<std::int32_t>("a", {n});
  p.in_range(a, 0, rows);
  auto x = p.input<double>("x", {n});
  auto t = p.output<double>("t", {rows + 1, rows});
  for (auto i : p.loop("i", 0, rows))
    for (auto j : p.loop("j", 0, rows)) t(i + 1, j) = 0.0;
  for (auto i : p.loop("k", 0, n)) t(a(i) + 1, a(n - 1 - i)) += x(i);
  for (auto j : p.loop("l", 0, rows)) t(0, j) = 1.0;  // only now
  expect_sorted(p.build(), {{{"n", 20}, {"rows", 3}}});
}

}  // namespace
}  // namespace loopgrad::transforms
