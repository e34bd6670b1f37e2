#include <loopgrad/device_array.h>

#include "backends/cuda/device.h"
#include "backends/cuda/nvrtc.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

namespace loopgrad {

namespace cuda = backend::cuda;

DeviceArray::DeviceArray(ScalarType type, std::vector<std::int64_t> shape)
    : type_(type),
      shape_(std::move(shape)),
      bytes_(element_count(shape_, type_, "") * static_cast<std::int64_t>(bytes_of(type_))),
      data_(cuda::allocate(bytes_, "")) {}

void DeviceArray::upload(const void* host) const {
  if (bytes_ == 0) return;
  cuda::copy_to_device(data_.get(), host, bytes_, nullptr);
  cuda::synchronize(nullptr, {});
}

void DeviceArray::download(void* host) const {
  cuda::synchronize_device();  // the work that computes the elements may be on any stream
  if (bytes_ > 0) cuda::copy_to_host(host, data_.get(), bytes_, nullptr);
}

bool has_cuda(std::string* why) {
  try {
    cuda::device("");
    backend::nvrtc_version("");
    return true;
  } catch (const Error& error) {
    if (why) *why = error.what();
    return false;
  }
}

std::string cuda_device_name() {
  const cuda::DeviceInfo& info = cuda::device("");
  return fmt::format("{} ({})", info.name, info.architecture);
}

void cuda_synchronize() { cuda::synchronize_device(); }

}  // namespace loopgrad
