// Rows whose length only data tell: each test fails without its mechanism, and what it makes computes the same in the
// checked interpreter. The device of these tests calls a row of three iterations a long one.
#include "tests/unit/count_of.h"
#include "tests/unit/cuda/mapped.h"
#include "transforms/loops/search_loops.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

/// Sums over the entries of each row, of vectors that an index array names, with weights that the row's sum scales.
/// `squares`: a second sum over the same entries.
Program weighted_rows(bool squares) {
  ProgramBuilder p("weighted_rows");
  auto v = p.size("V"), e = p.size("E"), d = p.size("D");
  auto ptr = p.input<std::int32_t>("ptr", {v + 1});
  auto src = p.input<std::int32_t>("src", {e});
  p.csr(ptr, e);
  p.in_range(src, 0, v);
  auto a = p.input<double>("a", {e});
  auto h = p.input<double>("h", {v, d});
  auto share = p.output<double>("share", {e});
  auto y = p.output<double>("y", {v, d}), z = p.output<double>("z", {v, d});
  for (auto k : p.loop("k", 0, e)) share(k) = 0.0;
  for (auto i : p.loop("i", 0, v)) {
    auto sum = p.local<double>("sum");
    sum() = 1.0;
    for (auto k : p.loop("k", ptr(i), ptr(i + 1))) {
      share(k) = a(k) * a(k);
      sum() += share(k);
    }
    for (auto j : p.loop("j", 0, d)) {
      y(i, j) = 0.0;
      z(i, j) = 1.0;
    }
    for (auto k : p.loop("k", ptr(i), ptr(i + 1)))
      for (auto j : p.loop("j", 0, d)) {
        y(i, j) += share(k) / sum() * h(src(k), j);
        if (squares) z(i, j) += h(src(k), j) * h(src(k), j);
      }
  }
  return p.build();
}

const std::vector<Sizes> graphs = {{{"V", 1}, {"E", 3}, {"D", 2}},   {{"V", 6}, {"E", 40}, {"D", 1}},
                                   {{"V", 40}, {"E", 20}, {"D", 3}}, {{"V", 3}, {"E", 0}, {"D", 2}},
                                   {{"V", 5}, {"E", 30}, {"D", 7}},  {{"V", 4}, {"E", 90}, {"D", 40}},
                                   {{"V", 3}, {"E", 20}, {"D", 140}}};

TEST(LaneGroups, NeighboursTakeTheContiguousLoopAndGroupsTheRow) {
  for (const bool squares : {false, true}) {
    const LoweredProgram result = mapped_to_small_gpu(weighted_rows(squares));
    EXPECT_EQ(count_of(result.text, "local f64 y_parts["), 2u) << result.text;
    EXPECT_NE(cuda_of(result).find("copy_four(h_wide_ + 0, &h_["), std::string::npos) << cuda_of(result);
    for (const Sizes& sizes : graphs) expect_same_results(result, sizes);
  }
}

TEST(RowClasses, LoopsInsideMayDecideAboutEachOther) {
  ProgramBuilder p("bands");
  auto v = p.size("V"), e = p.size("E"), d = p.size("D");
  auto ptr = p.input<std::int32_t>("ptr", {v + 1});
  p.csr(ptr, e);
  auto a = p.input<double>("a", {e});
  auto w = p.input<double>("w", {d});
  auto y = p.output<double>("y", {v});
  for (auto i : p.loop("i", 0, v)) {
    y(i) = 0.0;
    for (auto k : p.loop("k", ptr(i), ptr(i + 1)))
      for (auto l : p.loop("l", 0, d))
        for (auto m : p.loop("m", l, min(l + 2, d))) y(i) += a(k) * w(l) * w(m);
  }
  const LoweredProgram result = mapped_to_small_gpu(p.build());  // verified: no name is out of its scope
  for (const Sizes& sizes : graphs) expect_same_results(result, sizes);
}

TEST(RowClasses, LongRowsHaveAKernelOfTheirOwn) {
  const LoweredProgram result = mapped_to_small_gpu(weighted_rows(false));
  EXPECT_EQ(count_of(result.text, "ptr[i + 1] - ptr[i] <= 2"), 1u) << result.text;
  EXPECT_EQ(count_of(result.text, "if 2 < longest"), 1u) << result.text;
  // More rows than groups of them.
  expect_same_results(result, {{"V", 2100}, {"E", 3000}, {"D", 1}});
}

TEST(RowClasses, ARowWhoseLengthItsOwnValuesDecideStaysWhole) {
  ProgramBuilder p("own_length");
  auto v = p.size("V"), e = p.size("E");
  auto end = p.inout<std::int32_t>("end", {v});
  auto a = p.input<double>("a", {e});
  auto y = p.output<double>("y", {v});
  for (auto i : p.loop("i", 0, v)) {
    y(i) = 0.0;
    for (auto k : p.loop("k", min(max(end(i), 0), e), min(max(end(i) + 9, 0), e))) y(i) += a(k);
    end(i) = 0;
  }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_EQ(result.text.find("longest"), std::string::npos) << result.text;
  expect_same_results(result, {{"V", 6}, {"E", 40}});
}

TEST(RowClasses, AThreadSumsUpWhatIsInsideOfItsIteration) {
  ProgramBuilder p("products");
  auto v = p.size("V"), e = p.size("E"), d = p.size("D");
  auto ptr = p.input<std::int32_t>("ptr", {v + 1});
  auto src = p.input<std::int32_t>("src", {e});
  p.csr(ptr, e);
  p.in_range(src, 0, v);
  auto b = p.input<double>("b", {v, d}), h = p.input<double>("h", {v, d});
  auto y = p.inout<double>("y", {e}), s = p.output<double>("s", {v});
  for (auto i : p.loop("i", 0, v)) {
    auto sum = p.local<double>("sum");
    sum() = 0.0;
    for (auto k : p.loop("k", ptr(i), ptr(i + 1)))
      for (auto j : p.loop("j", 0, d)) {
        y(k) += b(i, j) * h(src(k), j);
        sum() += h(src(k), j);
      }
    for (auto k : p.loop("k", ptr(i), ptr(i + 1))) y(k) += sum();
    s(i) = sum();
  }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_EQ(count_of(result.text, "local f64 y_own"), 2u) << result.text;
  for (const Sizes& sizes : graphs) expect_same_results(result, sizes);
}

/// The gradient of a largest value, and what is done with it in the same loop. `other`: an iteration away.
Program taken_among_others(bool other) {
  ProgramBuilder p("taken");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n + 1});
  auto d_x = p.inout<double>("d_x", {n + 1});
  auto largest = p.input<double>("largest", {}), rest = p.inout<double>("rest", {});
  auto y = p.output<double>("y", {n});
  auto t = p.inout<double>("t", {});
  for (auto i : p.loop("i", 0, n)) {
    p.when(x(i) > largest(), [&] {
      d_x(i) += rest();
      rest() = 0.0;
    });
    y(i) = other ? d_x(i + 1) : d_x(i) * 2.0;
    t() += d_x(i);
  }
  return p.build();
}

TEST(SearchLoops, ASearchComesBeforeWhatFollowsIt) {
  const LoweredProgram result = passed(taken_among_others(false), search_loops);
  EXPECT_EQ(count_of(result.text, "for i in"), 2u) << result.text;
  for (const std::int64_t n : {0, 1, 9}) expect_same_results(result, {{"n", n}});
  EXPECT_EQ(count_of(passed(taken_among_others(true), search_loops).text, "for i in"), 1u);
}

}  // namespace
}  // namespace loopgrad::transforms
