// What benchmarks say of several times.
#pragma once

#include <algorithm>
#include <vector>

namespace loopgrad::bench {

/// The one in the middle, or the mean of the two there; 0 of none.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 0 : n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace loopgrad::bench
