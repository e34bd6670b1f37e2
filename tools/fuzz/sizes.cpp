// Sizes to run at: a few iterations for checked interpretation, and many for compiled runs.
#include "tools/fuzz/cost.h"
#include "tools/fuzz/writer.h"

#include <algorithm>

namespace loopgrad::fuzz {

/// Small sizes, zero and one among them, such that every index array has something to point at.
Sizes Writer::choose_sizes() {
  Sizes sizes;
  for (const SizeInfo& size : sizes_) {
    const std::int64_t dice = below(25);
    sizes[size.name] = dice == 0 ? 0 : dice < 4 ? 1 : 2 + below(4);
  }
  const auto concrete = [&](const Extent& extent) {
    return extent.size < 0 ? 1 : sizes[sizes_[static_cast<std::size_t>(extent.size)].name];
  };
  for (const IndexInfo& pointer : pointers_) {
    std::int64_t& entries = sizes[sizes_[static_cast<std::size_t>(pointer.target.size)].name];
    entries = concrete(pointer.extent) == 0 ? 0 : below(9);
  }
  for (const IndexInfo& index : indices_) {
    std::int64_t& target = sizes[sizes_[static_cast<std::size_t>(index.target.size)].name];
    if (target == 0) target = 1;
  }
  return sizes;
}

/// As large as a bounded number of operations allows, with at least one of everything. Odd sizes are the rule.
Sizes Writer::medium_sizes(const ir::Program& program) {
  static constexpr std::int64_t bases[] = {5, 9, 16, 33, 64, 129, 257, 1000, 3001};
  Sizes sizes;
  for (const SizeInfo& size : sizes_) sizes[size.name] = bases[below(std::size(bases))] + below(3);
  const double most = chance(20) ? 200'000 : 50'000;
  for (int tries = 0; tries < 200 && estimated_work(program, sizes, contents_) > most; ++tries) {
    const auto larger = [](const auto& a, const auto& b) { return a.second < b.second; };
    std::int64_t& largest = std::max_element(sizes.begin(), sizes.end(), larger)->second;
    largest = std::max<std::int64_t>(2, largest * 3 / 4);
  }
  return sizes;
}

}  // namespace loopgrad::fuzz
