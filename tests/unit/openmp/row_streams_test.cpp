// Rows of large arrays that are stored past the caches.
#include "tests/unit/openmp/kernels.h"

#include <cmath>
#include <cstring>

namespace loopgrad::test {
namespace {

/// y[i, j + 3] = f(x[i, j]), z likewise in f64.
lg::Program rows(bool dear, bool read_again) {
  lg::ProgramBuilder p("rows");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.inout<float>("y", {n, m + 3});
  auto z = p.output<double>("z", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      y(i, j + 3) = dear ? exp(x(i, j)) : 2.0f * x(i, j);
      z(i, j) = lg::cast<double>(x(i, j)) - 1.0;
    }
  for (auto i : p.loop("i", 0, read_again ? n : n * 0)) z(i, 0) = lg::cast<double>(read_again ? y(i, 3) : x(i, 0));
  return p.build();
}

std::string text_of(const lg::Program& program) { return emitted({parallel(program, {"i", "j"})}).source; }

TEST(RowStreams, RowsThatNobodyReadsGoPastTheCaches) {
  const std::string text = text_of(rows(false, false));
  EXPECT_NE(text.find("if (m_ >= stream_part && is_streamed(4 * n_ * (m_ + 3) + 4 * n_ * m_ + 8 * n_ * m_)) {"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("stream(&y_[i_ * (m_ + 3) + j_part_ + 3], y_part_, j_end_ - j_part_);"), std::string::npos)
      << text;
  EXPECT_NE(text.find("    stream_fence();\n"), std::string::npos) << text;
}

TEST(RowStreams, WhatIsReadOrTakesLongToComputeIsStoredAsUsual) {
  const std::string dear = text_of(rows(true, false));
  EXPECT_EQ(dear.find("stream(&"), std::string::npos) << dear;
  const std::string text = text_of(rows(false, true));
  EXPECT_EQ(text.find("stream(&y_"), std::string::npos) << text;
}

TEST(RowStreams, AllElementsOfRowsThatStartAnywhere) {
  // Larger and smaller than what a cache holds; rows of no whole number of lines, at a place that is no line's start.
  for (const auto& [n, m] : {std::pair<std::int64_t, std::int64_t>{3, 1'100'003}, {3001, 701}, {40, 1031}}) {
    const std::int64_t columns = m + 3;
    const auto x = numbers(n * m);
    std::vector<float> y(static_cast<std::size_t>(n * columns + 5), -1);
    std::vector<double> z(static_cast<std::size_t>(n * m), -1);
    float* const start = y.data() + 5;
    run(parallel(rows(false, false), {"i", "j"}),
        {{"x", view(x.data(), {n, m})}, {"y", view(start, {n, columns})}, {"z", view(z.data(), {n, m})}});
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < 3; ++j) ASSERT_EQ(start[i * columns + j], -1) << i << ' ' << j;
      for (std::int64_t j = 0; j < m; ++j) {
        const float value = x[static_cast<std::size_t>(i * m + j)];
        ASSERT_EQ(start[i * columns + j + 3], 2 * value) << i << ' ' << j;
        ASSERT_EQ(z[static_cast<std::size_t>(i * m + j)], double(value) - 1) << i << ' ' << j;
      }
    }
    for (int k = 0; k < 5; ++k) EXPECT_EQ(y[static_cast<std::size_t>(k)], -1);
  }
}

}  // namespace
}  // namespace loopgrad::test
