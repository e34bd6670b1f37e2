#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <cmath>

namespace loopgrad::programs {
namespace {

Program build() {
  ProgramBuilder p("embedding");
  auto n = p.size("n"), rows = p.size("rows"), d = p.size("d");
  auto table = p.input<float>("table", {rows, d});
  auto idx = p.input<int>("idx", {n});
  auto y = p.output<float>("y", {n, d});
  p.in_range(idx, 0, rows);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, d)) y(i, j) = table(idx(i), j);
  return p.build();
}

/// Words are far from equally frequent: row floor(rows r^4) for a uniform r.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  HostArray& idx = arrays.at("idx");
  for (std::int64_t i = 0; i < idx.size(); ++i)
    idx.set(i, std::floor(static_cast<double>(sizes.at("rows")) * std::pow(random.uniform(), 4)));
}

}  // namespace

ProgramEntry embedding() {
  return {.name = "embedding",
          .summary = "look-ups of table rows with skewed indices",
          .build = build,
          .sizes = {{"n", 1 << 16}, {"rows", 50000}, {"d", 128}},
          .check_sizes = {{"n", 29}, {"rows", 11}, {"d", 3}},
          .wrt = {"table"},
          .fill = fill};
}

}  // namespace loopgrad::programs
