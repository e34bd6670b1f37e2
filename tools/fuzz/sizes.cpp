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
    sizes[size.name] = dice == 0 || draws(8) ? 0 : dice < 4 ? 1 : 2 + below(4);
  }
  const auto concrete = [&](const Extent& extent) {
    return extent.size < 0 ? 1 : sizes[sizes_[static_cast<std::size_t>(extent.size)].name];
  };
  for (const IndexInfo& pointer : pointers_) {
    std::int64_t& entries = sizes[sizes_[static_cast<std::size_t>(pointer.target.size)].name];
    entries = concrete(pointer.extent) == 0 ? 0 : below(9);
  }
  const auto at_least_one = [&](const Extent& extent) {
    std::int64_t& size = sizes[sizes_[static_cast<std::size_t>(extent.size)].name];
    return size == 0 && (size = 1) == 1;
  };
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (const IndexInfo& index : indices_) is_changed |= at_least_one(index.target);
    for (const IndexInfo& pointer : pointers_)  // entries are in rows
      is_changed |= concrete(pointer.target) > 0 && at_least_one({.size = pointer.extent.size});
  }
  for (const std::string& name : empty_sizes_) sizes[name] = 0;
  return sizes;
}

/// Some of the sizes as large as lanes and blocks are, in a few programs: what is wrong in these does not show with
/// five iterations. Where there was nothing there still is nothing.
Sizes Writer::with_some_large(Sizes sizes, const ir::Program& program) {
  static constexpr std::int64_t large[] = {9, 17, 35, 70};
  constexpr double most = 2500;
  const Sizes small = sizes;
  for (const SizeInfo& size : sizes_)
    if (sizes[size.name] > 0 && chance(60))
      sizes[size.name] = std::max(sizes[size.name], large[below(std::size(large))]);
  for (int tries = 0; tries < 100 && estimated_work(program, sizes, contents_) > most; ++tries) {
    const auto larger = [](const auto& a, const auto& b) { return a.second < b.second; };
    auto& [name, largest] = *std::max_element(sizes.begin(), sizes.end(), larger);
    largest = std::max(small.at(name), largest * 3 / 4);
  }
  return sizes;
}

/// As large as a bounded number of operations allows, with at least one of everything. Odd sizes are the rule.
Sizes Writer::medium_sizes(const ir::Program& program) {
  static constexpr std::int64_t bases[] = {5, 9, 16, 33, 64, 129, 257, 1000, 3001};
  Sizes sizes;
  for (const SizeInfo& size : sizes_) sizes[size.name] = bases[below(std::size(bases))] + below(3);
  for (const std::string& name : empty_sizes_) sizes[name] = 0;
  const double most = chance(20) ? 200'000 : 50'000;
  for (int tries = 0; tries < 200 && estimated_work(program, sizes, contents_) > most; ++tries) {
    const auto larger = [](const auto& a, const auto& b) { return a.second < b.second; };
    std::int64_t& largest = std::max_element(sizes.begin(), sizes.end(), larger)->second;
    largest = std::max<std::int64_t>(2, largest * 3 / 4);
  }
  return sizes;
}

}  // namespace loopgrad::fuzz
