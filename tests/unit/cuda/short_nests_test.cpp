// Loops of a few iterations inside of many: threads of a block share several of them as one, or take an iteration of
// the outer loop each.
#include "backends/cuda/index_width.h"
#include "tests/unit/count_of.h"
#include "tests/unit/cuda/mapped.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

/// Elements of `nodes` by `nodes` values, which are mirrored in steps.
Program mirrored(int nodes) {
  ProgramBuilder p("mirrored");
  auto n = p.size("n"), steps = p.size("steps");
  auto x = p.input<float>("x", {n, nodes, nodes});
  auto y = p.output<float>("y", {n, nodes, nodes});
  for (auto e : p.loop("e", 0, n)) {
    auto a = p.local<float>("a", {nodes, nodes});
    for (auto [j, i] : p.loop({"j", nodes}, {"i", nodes})) a(j, i) = x(e, j, i);
    for ([[maybe_unused]] auto s : p.loop("s", 0, steps)) {
      auto b = p.local<float>("b", {nodes, nodes});
      for (auto [j, i] : p.loop({"j", nodes}, {"i", nodes})) b(j, i) = a(nodes - 1 - i, j) * 0.5f;
      for (auto [j, i] : p.loop({"j", nodes}, {"i", nodes})) a(j, i) = a(j, i) + b(j, nodes - 1 - i);
    }
    for (auto [j, i] : p.loop({"j", nodes}, {"i", nodes})) y(e, j, i) = a(j, i);
  }
  return p.build();
}

TEST(ShortNests, AreSharedAsOne) {
  for (const int nodes : {5, 7}) {
    const LoweredProgram result = mapped_to_small_gpu(mirrored(nodes));
    EXPECT_NE(result.text.find("place//" + std::to_string(nodes)), std::string::npos) << result.text;
    for (const std::int64_t n : {1, 3})
      for (const std::int64_t steps : {0, 2}) expect_same_results(result, {{"n", n}, {"steps", steps}});
  }
}

TEST(ShortNests, LongerLoopsInsideStayByThemselves) {
  const LoweredProgram result = mapped_to_small_gpu(mirrored(40));
  EXPECT_EQ(result.text.find("place//40"), std::string::npos) << result.text;
  expect_same_results(result, {{"n", 2}, {"steps", 1}});
}

/// Sums of `channels` values in as many iterations as data say.
Program look_ups(int channels) {
  ProgramBuilder p("look_ups");
  auto n = p.size("n"), m = p.size("m");
  auto count = p.input<int>("count", {n});
  auto table = p.input<float>("table", {m, channels});
  auto y = p.output<float>("y", {n, channels});
  p.in_range(count, 0, m + 1);
  for (auto i : p.loop("i", 0, n)) {
    for (auto c : p.loop("c", 0, channels)) y(i, c) = 0.0f;
    auto sum = p.scalar<float>("sum", 0.0f);
    for (auto j : p.loop("j", 0, count(i))) {
      sum = sum * 0.5f + table(j, 0);
      for (auto c : p.loop("c", 0, channels)) y(i, c) += sum * table(j, c);
    }
  }
  return p.build();
}

TEST(ShortNests, AThreadForEachOfManyIterationsWithFewInside) {
  const auto by_threads = [](const LoweredProgram& result) {
    return result.text.find("thread_x") != std::string::npos;
  };
  const LoweredProgram few = mapped_to_small_gpu(look_ups(5)), many = mapped_to_small_gpu(look_ups(64));
  EXPECT_TRUE(by_threads(few)) << few.text;
  EXPECT_FALSE(by_threads(many)) << many.text;
  for (const std::int64_t n : {1, 9, 70}) {
    expect_same_results(few, {{"n", n}, {"m", 6}});
    expect_same_results(many, {{"n", n}, {"m", 6}});
  }
}

/// y[f] = the sum of squares of the image f: two loops that sum, the inner one over neighbours in memory.
Program energies() {
  ProgramBuilder p("energies");
  auto n = p.size("n"), h = p.size("h"), w = p.size("w");
  auto x = p.input<double>("x", {n, h, w});
  auto y = p.output<double>("y", {n});
  for (auto f : p.loop("f", 0, n)) {
    y(f) = 0.0;
    for (auto i : p.loop("i", 0, h))
      for (auto j : p.loop("j", 0, w)) y(f) += x(f, i, j) * x(f, i, j);
  }
  return p.build();
}

TEST(SharedNest, GroupsOfThreadsShareTheLoopAroundShortRows) {
  const LoweredProgram result = mapped_to_small_gpu(energies());
  EXPECT_GE(count_of(result.text, "for i in t//lanes"), 1u) << result.text;
  EXPECT_GE(count_of(result.text, "for j in t%lanes"), 1u) << result.text;
  for (const Sizes& sizes : std::vector<Sizes>{{{"n", 3}, {"h", 9}, {"w", 13}},
                                               {{"n", 2}, {"h", 1}, {"w", 70}},
                                               {{"n", 2}, {"h", 40}, {"w", 1}},
                                               {{"n", 1}, {"h", 0}, {"w", 5}},
                                               {{"n", 4}, {"h", 33}, {"w", 35}}})
    expect_same_results(result, sizes);
}

TEST(SharedNest, IndicesHave32BitsWhereAllFit) {
  ProgramBuilder p("borders");  // rows whose bounds follow from a loop around
  auto n = p.size("n"), w = p.size("w");
  auto x = p.input<float>("x", {n, w, w});
  auto y = p.output<float>("y", {n, 3});
  for (auto f : p.loop("f", 0, n))
    for (auto s : p.loop("s", 0, 3)) {
      y(f, s) = 0.0f;
      for (auto i : p.loop("i", 0, w))
        for (auto j : p.loop("j", max(0, 1 - s), min(w, w + 1 - s))) y(f, s) += x(f, i, j + s - 1);
    }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_GE(count_of(result.text, "for lanes in"), 1u) << result.text;
  backend::SizeValues sizes;
  for (const ir::Symbol& size : result.after.sizes) sizes[size] = 56;
  EXPECT_TRUE(backend::has_narrow_indices(result.after, sizes)) << result.text;
}

/// Which threads take a row is not decided before the loop that says how long it is.
TEST(SharedNest, RowsOfATriangleInALoopInBetween) {
  ProgramBuilder p("triangles");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n + n}), y = p.input<double>("y", {n});
  auto total = p.inout<double>("total", {});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      (void)j;
      for (auto k : p.loop("k", 0, i + 1)) total() += x(i + k) * y(k);
    }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  for (const std::int64_t size : {1, 9, 40}) expect_same_results(result, {{"n", size}, {"m", 5}});
}

}  // namespace
}  // namespace loopgrad::transforms
