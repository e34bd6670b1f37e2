// Arguments of compiled runs: at odd addresses, with borders that nobody may touch, on the host or on a GPU.
#pragma once

#include "tools/fuzz/case.h"

#include <loopgrad/device_array.h>

#include <vector>

namespace loopgrad::fuzz {

/// A copy of an array between two borders.
class GuardedArray {
 public:
  /// The copy begins `offset` elements behind a multiple of 64 bytes.
  GuardedArray(const HostArray& contents, int offset, Device device);
  View view() const;
  /// The contents now. Throws Disagreement naming the array when a border has changed.
  HostArray contents(const std::string& name) const;

 private:
  ScalarType type_;
  std::vector<std::int64_t> shape_;
  std::size_t bytes_ = 0, begin_ = 0;
  mutable std::vector<unsigned char> host_;
  DeviceArray device_;
};

}  // namespace loopgrad::fuzz
