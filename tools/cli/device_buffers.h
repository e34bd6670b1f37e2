// A command's arrays in the memory of the GPU.
#pragma once

#include "tools/cli/buffers.h"

#include <loopgrad/device_array.h>

namespace loopgrad::cli {

/// Copies of the host's `buffers`, which must outlive this.
class DeviceBuffers {
 public:
  explicit DeviceBuffers(const Buffers& buffers, std::size_t programs);
  /// The host's contents to the device.
  void upload() const;
  /// Results back to the host.
  void download() const;
  void download(const std::vector<std::string>& names) const;
  /// The arguments of program number `index`.
  Arguments arguments(std::size_t index) const;
  std::vector<View> views(const std::vector<std::string>& names) const;

 private:
  const Buffers& host_;
  std::map<std::string, DeviceArray> arrays_;
};

}  // namespace loopgrad::cli
