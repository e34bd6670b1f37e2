#include "tools/programs/hpc/reactor.h"
#include "tools/programs/programs.h"

#include <algorithm>

namespace loopgrad::programs {
namespace {

constexpr int kChannels = 5;  // total, elastic, absorption, fission, nu-fission

/// The position in rising `energies` from which the interval with `energy` starts.
Element grid_search(ProgramBuilder& p, const ArrayHandle& energies, const Value& energy) {
  auto lower = p.scalar<std::int64_t>("lower"), upper = p.scalar<std::int64_t>("upper");
  lower = 0;
  upper = energies.extent(0) - 1;
  for (auto trip : p.loop_while("trip", 64, [&](const Value&) { return upper - lower > 1; })) {
    static_cast<void>(trip);
    auto middle = p.scalar<std::int64_t>("middle");
    middle = lower + (upper - lower) / 2;
    p.when(energies(middle) > energy, [&] { upper = middle; }).otherwise([&] { lower = middle; });
  }
  return lower;
}

/// Macroscopic cross-sections of a reactor's materials at the energies of events. A point of a nuclide's grid is its
/// energy and the five channels; the union of all grids says for each of its energies where that is in each nuclide's.
Program build() {
  ProgramBuilder p("xsbench");
  auto lookups = p.size("lookups"), isotopes = p.size("isotopes"), points = p.size("points"), most = p.size("most");
  auto nuclide_grid = p.input<float>("nuclide_grid", {isotopes * points, 1 + kChannels});
  auto union_energy = p.input<float>("union_energy", {isotopes * points});
  auto union_index = p.input<int>("union_index", {isotopes * points * isotopes});
  auto num_nucs = p.input<int>("num_nucs", {kMaterials});
  auto mats = p.input<int>("mats", {kMaterials * most});
  auto concs = p.input<float>("concs", {kMaterials * most});
  auto energy = p.input<float>("energy", {lookups});
  auto material = p.input<int>("material", {lookups});
  auto macro_xs = p.output<float>("macro_xs", {lookups, kChannels});
  p.in_range(union_index, 0, points - 1);
  p.in_range(num_nucs, 0, most + 1);
  p.in_range(mats, 0, isotopes);
  p.in_range(material, 0, kMaterials);

  for (auto i : p.loop("i", 0, lookups)) {
    for (auto k : p.loop("k", 0, kChannels)) macro_xs(i, k) = 0.0f;
    auto at = grid_search(p, union_energy, energy(i));
    auto mat = material(i);
    for (auto j : p.loop("j", 0, num_nucs(mat))) {
      auto nuclide = mats(mat * most + j);
      auto low = nuclide * points + union_index(at * isotopes + nuclide), high = low + 1;
      auto low_energy = nuclide_grid(low, 0), high_energy = nuclide_grid(high, 0);
      auto f = p.scalar<float>("f");
      f = (high_energy - energy(i)) / (high_energy - low_energy);
      for (auto k : p.loop("k", 0, kChannels)) {
        auto low_xs = nuclide_grid(low, 1 + k), high_xs = nuclide_grid(high, 1 + k);
        macro_xs(i, k) += (high_xs - f * (high_xs - low_xs)) * concs(mat * most + j);
      }
    }
  }
  return p.build();
}

/// Nuclides have energies and cross-sections at random, the union its positions in their grids.
void fill_grids(std::int64_t isotopes, std::int64_t points, tools::Random& random, InputArrays& arrays) {
  HostArray &grid = arrays.at("nuclide_grid"), &energies = arrays.at("union_energy"), &index = arrays.at("union_index");
  std::vector<double> all;
  for (std::int64_t row = 0; row < isotopes * points; ++row) {  // rising, and no two the same
    grid.set(row * 6, (static_cast<double>(row % points) + random.uniform(0.05, 0.95)) / static_cast<double>(points));
    for (std::int64_t k = 1; k < 6; ++k) grid.set(row * 6 + k, random.uniform());
    all.push_back(grid.get(row * 6));
  }
  std::sort(all.begin(), all.end());
  std::vector<std::int64_t> low(static_cast<std::size_t>(isotopes), 0);
  for (std::int64_t e = 0; e < isotopes * points; ++e) {
    const double here = all[static_cast<std::size_t>(e)];
    energies.set(e, here);
    for (std::int64_t nuclide = 0; nuclide < isotopes; ++nuclide) {
      std::int64_t& at = low[static_cast<std::size_t>(nuclide)];
      while (at < points - 2 && grid.get((nuclide * points + at + 1) * 6) <= here) ++at;
      index.set(e * isotopes + nuclide, static_cast<double>(at));
    }
  }
}

void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  fill_grids(sizes.at("isotopes"), sizes.at("points"), random, arrays);
  fill_materials(sizes.at("isotopes"), sizes.at("most"), random, arrays);
}

}  // namespace

ProgramEntry xsbench() {
  return {.name = "xsbench",
          .summary = "cross-sections of a reactor's materials at the energies of events (XSBench)",
          .build = build,
          .sizes = {{"lookups", 100000}, {"isotopes", 68}, {"points", 1000}, {"most", 34}},
          .check_sizes = {{"lookups", 13}, {"isotopes", 5}, {"points", 7}, {"most", 4}},
          .wrt = {"nuclide_grid"},
          .fill = fill};
}

}  // namespace loopgrad::programs
