// Sums through index arrays on a CPU.
#include "transforms/sums/invert_scatters.h"
#include "tests/unit/transforms/lowered.h"
#include "transforms/map/cpu/hoist_indices.h"

#include <loopgrad/program.h>

namespace loopgrad::transforms {
namespace {

ir::Program inverted_alone(const ir::Program& program) {
  Report report;
  const LowerOptions options;
  PassContext context{options, report};
  return invert_scatters(program, context);
}

bool contains(const LoweredProgram& result, const std::string& text) {
  return result.text.find(text) != std::string::npos;
}

/// t[idx[i], j] += 2*x[i, j].
Program lookups() {
  ProgramBuilder p("lookups");
  auto n = p.size("n"), rows = p.size("rows"), m = p.size("m");
  auto idx = p.input<int>("idx", {n});
  auto x = p.input<double>("x", {n, m});
  auto t = p.inout<double>("t", {rows, m});
  p.in_range(idx, 0, rows);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) t(idx(i), j) += x(i, j) * 2.0;
  return p.build();
}

/// y[src[e], j] += w[e]*x[v, j] for the entries e of row v, scaled by what belongs to the target.
Program graph() {
  ProgramBuilder p("graph");
  auto n = p.size("n"), entries = p.size("entries"), m = p.size("m");
  auto ptr = p.input<int>("ptr", {n + 1});
  auto src = p.input<int>("src", {entries});
  auto w = p.input<double>("w", {entries}), x = p.input<double>("x", {n, m}), z = p.input<double>("z", {n});
  auto y = p.inout<double>("y", {n, m});
  p.csr(ptr, entries);
  p.in_range(src, 0, n);
  for (auto v : p.loop("v", 0, n))
    for (auto e : p.loop("e", ptr(v), ptr(v + 1)))
      for (auto j : p.loop("j", 0, m)) y(src(e), j) += w(e) * x(v, j) * z(src(e));
  return p.build();
}

TEST(InvertScatters, TargetsTakeTheIterationsThatAddToThem) {
  for (const auto pass : {inverted_alone, mapped_to_cpu}) {
    const LoweredProgram result = passed(lookups(), pass);
    EXPECT_TRUE(contains(result, "local i64 i_of[")) << result.text;
    // 2100 iterations are enough, 3 are not; nor are rows of 4.
    for (const std::int64_t n : {0, 3, 2100})
      for (const std::int64_t m : {4, 9}) expect_same_results(result, {{"n", n}, {"rows", 5}, {"m", m}});
  }
  // Blocks of columns were for threads, which now share out the targets.
  const LoweredProgram result = passed(lookups(), inverted_alone);
  EXPECT_TRUE(contains(result,
                       "    for slot in first[target]..first[target + 1]:\n"
                       "      parallel for j in 0..m:\n"
                       "        t[target, j] += "))
      << result.text;
}

TEST(InvertScatters, RowsOfAGraphHaveAllEntriesTogether) {
  for (const auto pass : {inverted_alone, mapped_to_cpu}) {
    const LoweredProgram result = passed(graph(), pass);
    EXPECT_TRUE(contains(result, "local i64 e_of[entries]")) << result.text;
    for (const std::int64_t n : {1, 7})
      for (const std::int64_t m : {8, 70})
        for (const std::int64_t entries : {5, 2100})
          expect_same_results(result, {{"n", n}, {"entries", entries}, {"m", m}});
  }
  const LoweredProgram result = passed(graph(), inverted_alone);
  EXPECT_TRUE(contains(result, "*z[target]")) << result.text;
  // Iterations are counted and placed in blocks where there are more of them than targets, in the sizes above up to 16.
  EXPECT_TRUE(contains(result, "local i64 place[max(min(entries//max(n*2, 1), 16), 1), n]")) << result.text;
}

TEST(InvertScatters, TargetsThatTheNestReadsStay) {
  ProgramBuilder p("carried");
  auto n = p.size("n"), m = p.size("m");
  auto idx = p.input<int>("idx", {n});
  auto t = p.inout<double>("t", {n, m});
  p.in_range(idx, 0, n);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) t(idx(i), j) += t(i, j);
  EXPECT_FALSE(contains(passed(p.build(), inverted_alone), "first"));
}

TEST(InvertScatters, LoopsThatOnlyDataBoundStay) {
  ProgramBuilder p("bounded_by_data");
  auto n = p.size("n"), m = p.size("m");
  auto idx = p.input<int>("idx", {n}), count = p.input<int>("count", {n});
  auto x = p.input<double>("x", {n, m});
  auto t = p.inout<double>("t", {n, m});
  p.in_range(idx, 0, n);
  for (auto i : p.loop("i", 0, n))
    for (auto k : p.loop("k", 0, count(i)))
      for (auto j : p.loop("j", 0, m)) t(idx(k), j) += x(i, j);
  EXPECT_FALSE(contains(passed(p.build(), inverted_alone), "first"));
}

TEST(HoistIndices, AnIndexFromDataIsReadBeforeTheLoop) {
  const LoweredProgram result = passed(graph(), hoist_indices);
  EXPECT_TRUE(contains(result, "src_row = select(")) << result.text;
  for (const std::int64_t n : {1, 7})
    for (const std::int64_t m : {0, 3}) expect_same_results(result, {{"n", n}, {"entries", 12}, {"m", m}});
}

TEST(HoistIndices, WhatSomeIterationsReadOrTheLoopWritesStays) {
  ProgramBuilder p("stays");
  auto n = p.size("n"), m = p.size("m");
  auto idx = p.input<int>("idx", {n});
  auto at = p.inout<int>("at", {n});
  auto x = p.input<double>("x", {n, m});
  auto y = p.inout<double>("y", {n, m});
  p.in_range(idx, 0, n);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      p.when(x(i, j) > 0.0, [&] { y(i, j) += x(idx(i), j); });
      y(i, j) += x(at(i), j);
      at(i) = 0;
    }
  const LoweredProgram result = passed(p.build(), hoist_indices);
  EXPECT_FALSE(contains(result, "_row")) << result.text;
}

}  // namespace
}  // namespace loopgrad::transforms
