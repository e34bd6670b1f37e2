// Tells whether arrays in the memory of the GPU changed from run to run, without copying them to the host.
#pragma once

#include <loopgrad/device_array.h>

#include <memory>
#include <vector>

namespace loopgrad::cli {

class DeviceHash {
 public:
  /// Compiles its kernel. Throws RuntimeError(NoDevice).
  DeviceHash();
  /// A number that depends on every bit of the arrays and where it stands. Waits for the default stream.
  std::uint64_t operator()(const std::vector<View>& arrays) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace loopgrad::cli
