// Shared by the files that call the CUDA runtime: no other file sees its types.
#pragma once

#include "backends/cuda/device.h"

#include <cuda_runtime_api.h>

namespace loopgrad::backend::cuda {

/// Throws RuntimeError(OutOfMemory or DeviceFailed) naming call, kernel and program.
[[noreturn]] void fail(cudaError_t status, const std::string& call, const Context& context);

inline void require(cudaError_t status, const char* call, const Context& context = {}) {
  if (status != cudaSuccess) fail(status, call, context);
}

inline cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }

/// Makes a device current for a while.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    cudaGetDevice(&before_);
    if (device != before_) cudaSetDevice(device);
  }
  DeviceScope(const DeviceScope&) = delete;
  ~DeviceScope() { cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

}  // namespace loopgrad::backend::cuda
