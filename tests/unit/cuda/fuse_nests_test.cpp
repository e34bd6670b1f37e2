#include "transforms/map/gpu/fuse_nests.h"

#include "tests/unit/transforms/lowered.h"

namespace loopgrad::transforms {
namespace {

enum class Second {
  SamePlace,
  ShiftedLoop,
  OwnLevel,
  Neighbour,
  ShiftedNeighbour,
  OtherBounds,
  NothingShared,
  NeighboursLevel,
  ChangesWhatIsRead
};

/// One nest, and directly after it a second one.
LoweredProgram fused(Second second) {
  ProgramBuilder p("two_nests");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<double>("a", {n, m});
  auto b = p.inout<double>("b", {n, m});
  auto v = p.inout<double>("v", {2, n, m});
  auto c = p.inout<double>("c", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 1, m - 1)) {
      b(i, j) = a(i, j) - a(i, j + 1);
      v(0, i, j) = 3.0 * v(1, i, j - 1);
    }
  const bool shifted = second == Second::ShiftedLoop || second == Second::ShiftedNeighbour;
  for (auto i : p.loop("k", 0, n))
    for (auto j : p.loop("l", shifted ? 0 : 1, second == Second::OtherBounds ? m : shifted ? m - 2 : m - 1)) {
      switch (second) {
        case Second::ShiftedLoop: c(i, j) = a(i, j + 1) + 2.0 * b(i, j + 1); break;
        case Second::ShiftedNeighbour: c(i, j) = b(i, j); break;
        case Second::OtherBounds:
        case Second::SamePlace: c(i, j) = a(i, j) + 2.0 * b(i, j); break;
        case Second::OwnLevel: c(i, j) = v(1, i, j + 1 - 1) - v(1, i, j + 1); break;
        case Second::Neighbour: c(i, j) = b(i, j - 1); break;
        case Second::NothingShared: c(i, j) = 1.0; break;
        case Second::NeighboursLevel: c(i, j) = v(0, i, j + 1); break;
        case Second::ChangesWhatIsRead: a(i, j) = c(i, j) + a(i, j); break;
      }
    }
  const LoweredProgram result = passed(p.build(), fuse_nests);
  for (const std::int64_t columns : {0, 1, 2, 3, 7}) expect_same_results(result, {{"n", 3}, {"m", columns}});
  return result;
}

std::size_t nests(const LoweredProgram& result) { return outer_parallel_loops(result.after.body).size(); }

TEST(FuseNests, WhatBothReadIsReadOnce) {
  for (const Second second : {Second::SamePlace, Second::ShiftedLoop, Second::OwnLevel}) {
    const LoweredProgram result = fused(second);
    EXPECT_EQ(nests(result), 1u) << result.text;
  }
}

TEST(FuseNests, NotWhereIterationsWouldSeeEachOther) {
  for (const Second second :
       {Second::Neighbour, Second::ShiftedNeighbour, Second::NeighboursLevel, Second::ChangesWhatIsRead}) {
    const LoweredProgram result = fused(second);
    EXPECT_EQ(nests(result), 2u) << result.text;
  }
}

TEST(FuseNests, NotWithoutSomethingToShareOrTheSameBounds) {
  for (const Second second : {Second::NothingShared, Second::OtherBounds})
    EXPECT_EQ(nests(fused(second)), 2u) << static_cast<int>(second);
}

TEST(FuseNests, SumsReadWhatTheyAddTo) {
  ProgramBuilder p("sums");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n}), b = p.input<double>("b", {n});
  auto y = p.inout<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) += 2.0 * a(i);
  for (auto i : p.loop("i", 0, n)) y(i) += 3.0 * b(i);
  const LoweredProgram result = passed(p.build(), fuse_nests);
  EXPECT_EQ(nests(result), 1u) << result.text;
  expect_same_results(result, {{"n", 7}});
}

TEST(FuseNests, WhatComesFirstInAScopeIsJoined) {
  ProgramBuilder p("scope");
  auto n = p.size("n"), steps = p.size("steps");
  auto a = p.input<double>("a", {n});
  auto y = p.inout<double>("y", {n}), x = p.output<double>("x", {n});
  for (auto t : p.loop("t", 0, steps)) {
    (void)t;
    for (auto i : p.loop("i", 0, n)) x(i) = 2.0 * y(i) + a(i);
    auto v = p.local<double>("v", {n});
    for (auto i : p.loop("i", 0, n)) v(i) = sin(x(i)) + x(i);
    for (auto i : p.loop("i", 0, n)) y(i) = v(i) - v((i + 1) % n);
  }
  const LoweredProgram result = passed(p.build(), fuse_nests);
  EXPECT_EQ(nests(result), 2u) << result.text;
  EXPECT_LT(result.text.find("local f64 v[n]"), result.text.find("x[i] = ")) << result.text;
  for (const std::int64_t size : {1, 2, 7}) expect_same_results(result, {{"n", size}, {"steps", 3}});
}

}  // namespace
}  // namespace loopgrad::transforms
