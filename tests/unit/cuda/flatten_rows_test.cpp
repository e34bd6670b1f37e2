// Loops over the entries of rows that become one over all entries (transforms/map/gpu/flatten_rows.h).
#include "transforms/map/gpu/flatten_rows.h"

#include "tests/unit/cuda/mapped.h"

namespace loopgrad::transforms {
namespace {

/// For each entry of a row a sum over those up to it; rows are cells of a grid.
Program pairs(bool causal, bool all_rows = true) {
  ProgramBuilder p("pairs");
  auto n = p.size("n"), m = p.size("m"), entries = p.size("entries"), d = p.size("d");
  auto ptr = p.input<std::int32_t>("ptr", {n * m + 1});
  p.csr(ptr, entries);
  auto x = p.input<double>("x", {entries, d});
  auto y = p.output<double>("y", {entries, d});
  for (auto [a, b] : p.loop({"a", Value(all_rows ? 0 : 1), n}, {"b", Value(0), m})) {
    for (auto i : p.loop("i", ptr(a * m + b), ptr(a * m + b + 1)))
      for (auto k : p.loop("k", 0, d)) {
        y(i, k) = 0.0;
        auto last = causal ? Value(i) + 1 : Value(d);
        for (auto j : p.loop("j", causal ? Value(ptr(a * m + b)) : Value(0), last))
          y(i, k) += (causal ? x(j, k) : x(i, j)) * tanh(x(i, k));
      }
  }
  return p.build();
}

bool is_flattened(const Program& program) {
  return mapped_to_small_gpu(program).text.find("a_of_i") != std::string::npos;
}

TEST(FlattenRows, EntriesAreAsManyAsTheyAre) {
  const Program program = pairs(true);
  const LoweredProgram result = mapped_to_small_gpu(program);
  EXPECT_NE(result.text.find("a_now = a_of_i[i]"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("b_now = b_of_i[i]"), std::string::npos) << result.text;
  for (const std::int64_t entries : {1, 5, 40})
    for (const std::int64_t d : {0, 1, 9})
      expect_same_results(result, {{"n", 3}, {"m", 2}, {"entries", entries}, {"d", d}});
}

TEST(FlattenRows, NotWhereIterationsTakeEquallyLongOrRowsAreLeftOut) {
  EXPECT_FALSE(is_flattened(pairs(false)));
  EXPECT_FALSE(is_flattened(pairs(true, false))) << "entries of the rows that are left out have no row";

  ProgramBuilder p("one");
  auto n = p.size("n"), entries = p.size("entries");
  auto ptr = p.input<std::int32_t>("ptr", {n + 1});
  p.csr(ptr, entries);
  auto y = p.output<double>("y", {entries});
  for (auto e : p.loop("e", ptr(n / 2), ptr(n / 2 + 1))) {
    y(e) = 1.0;
    for (auto f : p.loop("f", 0, e)) y(e) = sin(y(e)) + cast<double>(f);
  }
  EXPECT_EQ(mapped_to_small_gpu(p.build()).text.find("_of_e"), std::string::npos) << "no loop over rows";
}

}  // namespace
}  // namespace loopgrad::transforms
