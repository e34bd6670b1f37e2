#include "tests/programs/primal_run.h"
#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

/// Looks for the interval in each nuclide's own grid, so that the union's positions are tested, too.
TEST(XsBench, IsThatOfPlainCode) {
  const std::size_t lookups = 57, isotopes = 6, points = 9, most = 5;
  const PrimalRun run(xsbench(), {{"lookups", 57}, {"isotopes", 6}, {"points", 9}, {"most", 5}}, 3);
  const auto grid = run.input("nuclide_grid"), count = run.input("num_nucs"), mats = run.input("mats"),
             concs = run.input("concs"), energy = run.input("energy"), material = run.input("material"),
             in_union = run.input("union_energy");
  std::vector<double> expected(lookups * 5, 0.0);
  for (std::size_t i = 0; i < lookups; ++i) {
    // An event lies at the last energy of the union before it, or at the first or the one before the last.
    std::size_t at = 0;
    while (at + 2 < in_union.size() && in_union[at + 1] <= energy[i]) ++at;
    const auto m = static_cast<std::size_t>(material[i]);
    for (std::size_t j = 0; j < static_cast<std::size_t>(count[m]); ++j) {
      const double* nuclide = &grid[static_cast<std::size_t>(mats[m * most + j]) * points * 6];
      std::size_t low = 0;
      for (std::size_t point = 0; point + 1 < points; ++point)
        if (nuclide[point * 6] <= in_union[at]) low = point;
      const double *a = nuclide + low * 6, *b = a + 6;
      for (std::size_t k = 0; k < 5; ++k)
        expected[i * 5 + k] +=
            concs[m * most + j] * (a[1 + k] + (b[1 + k] - a[1 + k]) * (energy[i] - a[0]) / (b[0] - a[0]));
    }
  }
  expect_near(run.output("macro_xs"), expected, 1e-12);
  EXPECT_EQ(isotopes * points, in_union.size());
}

}  // namespace
}  // namespace loopgrad::programs
