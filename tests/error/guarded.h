// An array between two others that must stay as they are.
#pragma once

#include <loopgrad/arrays.h>

#include <algorithm>
#include <vector>

namespace loopgrad::test {

struct Guarded {
  explicit Guarded(std::int64_t n, float value) : memory(static_cast<std::size_t>(n + 2 * gap), -1e9f), extent(n) {
    std::fill(memory.begin() + gap, memory.end() - gap, value);
  }
  View view() { return loopgrad::view(memory.data() + gap, {extent}); }
  float& operator[](std::int64_t i) { return memory[static_cast<std::size_t>(gap + i)]; }
  bool is_whole() const {
    bool whole = true;
    for (std::int64_t i = 0; i < gap; ++i)
      whole &=
          memory[static_cast<std::size_t>(i)] == -1e9f && memory[static_cast<std::size_t>(gap + extent + i)] == -1e9f;
    return whole;
  }
  static constexpr std::int64_t gap = 4096;
  std::vector<float> memory;
  std::int64_t extent;
};

}  // namespace loopgrad::test
