#include "transforms/map/cpu/tile_lanes.h"

#include "tests/unit/transforms/same_bits.h"

namespace loopgrad::transforms {
namespace {

ir::Program tiled(const ir::Program& before) {
  LowerOptions options;
  Report report;
  PassContext context{options, report};
  return tile_lanes(before, context);
}

Program convolution() {
  ProgramBuilder p("convolution");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {n + k});
  auto w = p.input<float>("w", {k});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<float>("s");
    s = 0;
    for (auto j : p.loop("j", 0, k)) s += x(i + j) * w(j);
    y(i) = s;
  }
  return p.build();
}

TEST(TileLanes, GivesEveryIterationALane) {
  const ir::Program before = with_parallel(convolution(), "i");
  const ir::Program after = tiled(before);
  ir::verify(after, "tile_lanes");
  const std::string text = ir::print(after);
  EXPECT_NE(text.find("local f32 s[64]"), std::string::npos) << text;
  EXPECT_NE(text.find("s[lane] += x[i_tile*64 + lane + j]*w[j]"), std::string::npos) << text;
  for (const std::int64_t n : {0, 1, 63, 64, 65, 200}) expect_same_bits(before, after, {{"n", n}, {"k", 5}});
}

TEST(TileLanes, SplitsLoopsWhoseBoundsMoveWithTheLane) {
  ProgramBuilder p("gather");
  auto n = p.size("n"), k = p.size("k");
  auto g = p.input<float>("g", {n});
  auto w = p.input<float>("w", {k});
  auto y = p.output<float>("y", {n + k - 1});
  for (auto c : p.loop("c", 0, n + k - 1)) {
    auto s = p.scalar<float>("s");
    s = 0;
    for (auto j : p.loop("j", max(0, c - n + 1), min(k, c + 1))) s += g(c - j) * w(j);
    y(c) = s;
  }
  const ir::Program before = with_parallel(p.build(), "c");
  const ir::Program after = tiled(before);
  ir::verify(after, "tile_lanes");
  // Near the borders some lanes run only.
  EXPECT_NE(ir::print(after).find("for lane in max(0, j - 64*c_tile)..min(64, "), std::string::npos)
      << ir::print(after);
  for (const auto& [n_value, k_value] :
       std::vector<std::pair<int, int>>{{1, 1}, {5, 3}, {64, 64}, {100, 7}, {7, 100}, {130, 70}, {300, 1}})
    expect_same_bits(before, after, {{"n", n_value}, {"k", k_value}});
}

TEST(TileLanes, BranchesAroundLoopsBecomeConditionsOfLanes) {
  ProgramBuilder p("branch");
  auto n = p.size("n"), k = p.size("k");
  auto g = p.input<float>("g", {n});
  auto w = p.input<float>("w", {k});
  auto y = p.inout<float>("y", {n + k});
  for (auto c : p.loop("c", 0, n + k)) {
    p.when(max(0, c - n + 1) < min(k, c + 1), [&] {
       auto s = p.scalar<float>("s");
       s = y(c);
       for (auto j : p.loop("j", max(0, c - n + 1), min(k, c + 1))) s += g(c - j) * w(j);
       y(c) = s;
     }).otherwise([&] {
      for (auto j : p.loop("j", 0, k)) y(c) += w(j);
    });
  }
  const ir::Program before = with_parallel(p.build(), "c");
  const ir::Program after = tiled(before);
  ir::verify(after, "tile_lanes");
  EXPECT_FALSE(after.body.same_as(before.body));
  for (const auto& [n_value, k_value] : std::vector<std::pair<int, int>>{{1, 1}, {100, 7}, {7, 100}, {300, 1}})
    expect_same_bits(before, after, {{"n", n_value}, {"k", k_value}});
}

/// Row sums by column (`x[i, j, c]`), or of neighbours, within a loop that threads share out.
Program in_rows(bool neighbours) {
  ProgramBuilder p("in_rows");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {2, n + k, n});
  auto v = p.input<float>("v", {n + k});
  auto y = p.output<float>("y", {2, n});
  for (auto i : p.loop("i", 0, 2)) {
    for (auto c : p.loop("c", 0, n)) {
      auto s = p.scalar<float>("s");
      s = 0;
      for (auto j : p.loop("j", 0, k)) s += neighbours ? v(c + j) : x(i, j, c);
      y(i, c) = s;
    }
    y(i, 0) += 1.0f;
  }
  return p.build();
}

/// y[c] = sum of g[j]*w[c - j + 1] over the j within `k` of c.
Program band() {
  ProgramBuilder p("band");
  auto n = p.size("n"), k = p.size("k");
  auto g = p.input<float>("g", {n});
  auto w = p.input<float>("w", {2 * k + 1});
  auto y = p.output<float>("y", {n});
  for (auto c : p.loop("c", 0, n)) {
    auto s = p.scalar<float>("s");
    s = 0;
    for (auto j : p.loop("j", max(0, c - k), min(n, c + k + 1))) s += g(j) * w(c - j + k);
    y(c) = s;
  }
  return p.build();
}

TEST(TileLanes, BandsAreCountedFromTheLane) {
  const ir::Program before = with_parallel(band(), "c");
  const ir::Program after = tiled(before);
  ir::verify(after, "tile_lanes");
  EXPECT_NE(ir::print(after).find("s[lane] += g[j + (c_tile*64 + lane)]*w[k - j]"), std::string::npos)
      << ir::print(after);
  for (const std::int64_t n : {1, 64, 65, 129, 200})
    for (const std::int64_t k : {0, 1, 5, 63, 64, 150, 300}) expect_same_bits(before, after, {{"n", n}, {"k", k}});
}

TEST(TileLanes, RowsThatWouldNotBeContiguousAreNotCountedFromTheLane) {
  ProgramBuilder p("columns");
  auto n = p.size("n"), k = p.size("k");
  auto g = p.input<float>("g", {n, 2});
  auto w = p.input<float>("w", {2 * k + 1});
  auto y = p.output<float>("y", {n});
  for (auto c : p.loop("c", 0, n)) {
    auto s = p.scalar<float>("s");
    s = 0;
    for (auto j : p.loop("j", max(0, c - k), min(n, c + k + 1))) s += g(j, 1) * w(c - j + k);
    y(c) = s;
  }
  const ir::Program before = with_parallel(p.build(), "c");
  const ir::Program after = tiled(before);
  EXPECT_FALSE(after.body.same_as(before.body));
  EXPECT_EQ(ir::print(after).find("g[j + "), std::string::npos) << ir::print(after);
  for (const std::int64_t k_value : {1, 70}) expect_same_bits(before, after, {{"n", 130}, {"k", k_value}});
}

TEST(TileLanes, WhatIsLeftOverRunsInFewerLanes) {
  for (const bool neighbours : {false, true}) {
    const ir::Program before = with_parallel(with_parallel(in_rows(neighbours), "i"), "c");
    const ir::Program after = tiled(before);
    ir::verify(after, "tile_lanes");
    const std::string text = ir::print(after);
    // Half a tile, a quarter, and what is left then.
    EXPECT_NE(text.find("if n - 64*(n//64) >= 32:"), std::string::npos) << text;
    EXPECT_NE(text.find("for lane in 0..32:"), std::string::npos) << text;
    EXPECT_NE(text.find("if n - 32*(n//32) >= 16:"), std::string::npos) << text;
    // A few sums of neighbours are better off as they are.
    EXPECT_EQ(text.find("for lane in 0..n - 16*(n//16):") == std::string::npos, neighbours) << text;
    EXPECT_EQ(text.find("parallel for c in n//16*16..n:") != std::string::npos, neighbours) << text;
    for (const std::int64_t n : {1, 15, 16, 33, 63, 64, 65, 80, 112, 127})
      expect_same_bits(before, after, {{"n", n}, {"k", 3}});
  }
}

TEST(TileLanes, WhatThreadsShareOutIsLeftOverOneByOne) {
  const ir::Program after = tiled(with_parallel(in_rows(false), "c"));
  EXPECT_EQ(ir::print(after).find("else:"), std::string::npos) << ir::print(after);
  EXPECT_EQ(ir::print(after).find("if n"), std::string::npos) << ir::print(after);
}

TEST(TileLanes, RaggedRestsKeepToTheirBounds) {
  ProgramBuilder p("triangle");
  auto n = p.size("n"), k = p.size("k");
  auto g = p.input<float>("g", {n, n});
  auto y = p.inout<float>("y", {2, n});
  for (auto i : p.loop("i", 0, 2)) {
    for (auto c : p.loop("c", 0, n)) {
      auto s = p.scalar<float>("s");
      s = y(i, c);
      for (auto j : p.loop("j", max(0, 2 * c - k), min(n, c + k))) s += g(j, c);
      y(i, c) = s;
    }
    y(i, 0) += 1.0f;
  }
  const ir::Program before = with_parallel(with_parallel(p.build(), "i"), "c");
  const ir::Program after = tiled(before);
  EXPECT_FALSE(after.body.same_as(before.body));
  for (const auto& [n_value, k_value] : std::vector<std::pair<int, int>>{{1, 1}, {20, 7}, {70, 3}, {130, 200}})
    expect_same_bits(before, after, {{"n", n_value}, {"k", k_value}});
}

TEST(TileLanes, KeepsBackwardLoopsInOrder) {
  ProgramBuilder p("backward");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0;
    for (auto j : p.loop("j", i, n)) y(i) += a(j, i) * 0.3f;
  }
  const auto reversed = [](const ir::Stmt& s) -> std::optional<ir::Stmt> {
    const auto* loop = s.as<ir::For>();
    if (!loop || loop->iterator.name != "j") return std::nullopt;
    return ir::for_loop(loop->iterator, loop->lower, loop->upper, loop->body, ir::LoopMode::Backward);
  };
  ir::Program before = with_parallel(p.build(), "i");
  before = ir::with_body(before, ir::rewrite(before.body, {}, reversed));
  const ir::Program after = tiled(before);
  EXPECT_FALSE(after.body.same_as(before.body));
  for (const std::int64_t n_value : {1, 64, 150}) expect_same_bits(before, after, {{"n", n_value}});
}

TEST(TileLanes, LeavesAloneWhatWouldNotBeContiguous) {
  ProgramBuilder p("rows");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n, n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0;
    for (auto j : p.loop("j", 0, n)) y(i) += x(i, j);
  }
  const ir::Program before = with_parallel(p.build(), "i");
  EXPECT_TRUE(tiled(before).body.same_as(before.body));
}

TEST(TileLanes, LeavesAloneBoundsThatDependOnData) {
  ProgramBuilder p("data");
  auto n = p.size("n");
  auto count = p.input<std::int32_t>("count", {n});
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0;
    for ([[maybe_unused]] auto j : p.loop("j", 0, count(i))) y(i) += x(i);
  }
  const ir::Program before = with_parallel(p.build(), "i");
  EXPECT_TRUE(tiled(before).body.same_as(before.body));
}

/// Sums in another order, and all else the same.
void expect_close(const ir::Program& before, const ir::Program& after, const Sizes& sizes) {
  const Buffers a = run(before, sizes), b = run(after, sizes);
  for (const auto& [name, buffer] : a)
    for (std::int64_t i = 0; i < buffer.size(); ++i)
      ASSERT_NEAR(buffer.get(i), b.at(name).get(i), 1e-4 * std::max(1.0, std::abs(buffer.get(i)))) << name << " " << i;
}

TEST(TileLanes, AddsUpWhatLanesShare) {
  ProgramBuilder p("shared");
  auto n = p.size("n"), k = p.size("k");
  auto g = p.input<float>("g", {n});
  auto x = p.input<float>("x", {k, n}), low = p.input<float>("low", {k});
  auto b = p.inout<float>("b", {k}), most = p.inout<float>("most", {}), first = p.inout<float>("first", {k});
  auto d = p.inout<float>("d", {k, n});
  for (auto j : p.loop("j", n)) {
    auto s = p.scalar<float>("s", 2 * g(j));
    for (auto i : p.loop("i", k)) {
      auto c = p.let("c", exp(low(i)));
      b(i) += s * x(i, j) * c;
      d(i, j) += c * s;
      p.when(x(i, j) > c, [&] { first(i) += x(i, j); });
      most().max_with(c);
    }
  }
  const ir::Program before = p.build().ir(), after = tiled(before);
  ir::verify(after, "tile_lanes");
  EXPECT_NE(ir::print(after).find("b_lanes += s[lane]*x[i, j_tile*64 + lane]*c"), std::string::npos)
      << ir::print(after);
  for (const std::int64_t n_value : {0, 1, 15, 16, 63, 64, 65, 80, 200})
    for (const std::int64_t k_value : {0, 1, 7}) expect_close(before, after, {{"n", n_value}, {"k", k_value}});
}

// The loops inside would load and store what they add to in every iteration, and may be short.
TEST(TileLanes, SumsOfAWindowAreAddedUpOnceATile) {
  ProgramBuilder p("window");
  auto n = p.size("n"), k = p.size("k"), l = p.size("l");
  auto g = p.input<float>("g", {n}), x = p.input<float>("x", {k, n + l});
  auto b = p.inout<float>("b", {k, l});
  for (auto j : p.loop("j", n))
    for (auto [u, v] : p.loop({"u", k}, {"v", l})) b(u, v) += g(j) * x(u, j + v);
  const ir::Program before = p.build().ir(), after = tiled(before);
  EXPECT_NE(ir::print(after).find("b_lanes += g[j_tile*64 + lane]*x[u, j_tile*64 + lane + v]"), std::string::npos)
      << ir::print(after);
  for (const std::int64_t n_value : {0, 1, 63, 64, 80, 200})
    expect_close(before, after, {{"n", n_value}, {"k", 2}, {"l", 3}});
}

TEST(TileLanes, LanesThatEndAtDifferentPlacesShareSums) {
  ProgramBuilder p("ragged");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n, n});
  auto b = p.inout<float>("b", {n});
  auto d = p.inout<float>("d", {n, n});
  for (auto j : p.loop("j", n))
    for (auto i : p.loop("i", j, n)) {
      b(i) += x(i, j) * 0.5f;
      d(i, j) += x(i, j);
    }
  const ir::Program before = p.build().ir(), after = tiled(before);
  ir::verify(after, "tile_lanes");
  EXPECT_FALSE(after.body.same_as(before.body));
  for (const std::int64_t n_value : {0, 1, 15, 16, 65, 130, 200}) expect_close(before, after, {{"n", n_value}});
}

}  // namespace
}  // namespace loopgrad::transforms
