/// @file
/// Arrays in the memory of a GPU, for programs that run on Target::Cuda.
#pragma once

#include <loopgrad/arrays.h>

namespace loopgrad {
/// @addtogroup running
/// @{

/// An array that owns memory of the current CUDA device. Memory comes from cudaMalloc and goes back to a pool, so that
/// arrays of sizes seen before cost nothing.
///
/// **Example:** `lg::DeviceArray x(lg::ScalarType::F32, {n}); x.upload(host.data()); args["x"] = x.view();`
class DeviceArray {
 public:
  /// Holds nothing.
  DeviceArray() = default;
  /// Uninitialised. Throws RuntimeError (NoDevice, OutOfMemory) or UsageError(BadSize) on overflow.
  DeviceArray(ScalarType type, std::vector<std::int64_t> shape);
  /// Of all of it; valid as long as the array or a copy of it lives, which share the memory.
  View view() const { return {data_.get(), type_, shape_, {}, Device::Cuda}; }
  /// What it was made with.
  /// @{
  ScalarType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  /// @}
  std::int64_t bytes() const { return bytes_; }  ///< of all elements
  void* data() const { return data_.get(); }     ///< the first element, an address of the device
  /// Copies all elements from or to host memory and waits for it; download also for all work that was started on the
  /// device before. Throws RuntimeError(DeviceFailed).
  /// @{
  void upload(const void* host) const;
  void download(void* host) const;
  /// @}

 private:
  ScalarType type_ = ScalarType::F32;
  std::vector<std::int64_t> shape_;
  std::int64_t bytes_ = 0;
  std::shared_ptr<void> data_;
};

/// Whether this process can run programs on a GPU; if not, `why` (when given) says what is missing.
bool has_cuda(std::string* why = nullptr);

/// The GPU's name and compute capability, e.g. "NVIDIA H200 (sm_90)". Throws RuntimeError(NoDevice).
std::string cuda_device_name();

/// Waits for everything that was started on the current device. Throws RuntimeError(DeviceFailed).
void cuda_synchronize();

/// @}
}  // namespace loopgrad
