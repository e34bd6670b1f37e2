#include "tools/programs/hpc/reactor.h"

#include <algorithm>
#include <numeric>

namespace loopgrad::programs {

void fill_materials(std::int64_t nuclides, std::int64_t most, tools::Random& random, InputArrays& arrays) {
  const std::int64_t counts[kMaterials] = {most, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9};
  std::vector<std::int64_t> order(static_cast<std::size_t>(nuclides));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t m = 0; m < kMaterials; ++m) {
    arrays.at("num_nucs").set(m, static_cast<double>(std::min({counts[m], most, nuclides})));
    for (std::size_t j = 0; j < order.size(); ++j)
      std::swap(order[j],
                order[j + static_cast<std::size_t>(random.below(static_cast<std::int64_t>(order.size() - j)))]);
    for (std::int64_t j = 0; j < most; ++j) {
      if (nuclides > 0)
        arrays.at("mats").set(m * most + j, static_cast<double>(order[static_cast<std::size_t>(j % nuclides)]));
      arrays.at("concs").set(m * most + j, random.uniform());
    }
  }
  const double likely[kMaterials] = {0.140, 0.052, 0.275, 0.134, 0.154, 0.064,
                                     0.066, 0.055, 0.008, 0.015, 0.025, 0.012};
  HostArray &energy = arrays.at("energy"), &material = arrays.at("material");
  for (std::int64_t i = 0; i < energy.size(); ++i) {
    energy.set(i, random.uniform());
    double rest = random.uniform();
    int m = 0;
    while (m < kMaterials - 1 && rest >= likely[m]) rest -= likely[m++];
    material.set(i, m);
  }
}

}  // namespace loopgrad::programs
