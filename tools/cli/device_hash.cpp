#include "tools/cli/device_hash.h"

#include "backends/cuda/device.h"
#include "backends/cuda/nvrtc.h"

namespace loopgrad::cli {
namespace {

namespace cuda = backend::cuda;

// Integer sums come out the same in any order. The mixing is that of splitmix64.
constexpr const char* hash_source = R"(
extern "C" __global__ void hash(const unsigned char* bytes, long long n, unsigned long long seed,
                                unsigned long long* sum) {
  unsigned long long own = 0;
  const long long words = n / 4;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < words + n % 4;
       i += (long long)gridDim.x * blockDim.x) {
    unsigned long long x = i < words ? ((const unsigned int*)bytes)[i] : bytes[4 * words + (i - words)];
    x += seed + (i + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    own += x ^ x >> 31;
  }
  atomicAdd(sum, own);
}
)";

}  // namespace

struct DeviceHash::Impl {
  cuda::Module module;
  cuda::Launch launch;
  std::shared_ptr<void> sum;
};

DeviceHash::DeviceHash() : impl_(std::make_shared<Impl>()) {
  const cuda::DeviceInfo& info = cuda::device("hash");
  impl_->module = cuda::Module(backend::compile_cubin(hash_source, info.architecture, "hash"), "hash");
  impl_->launch.function = impl_->module.function("hash", "hash");
  impl_->launch.grid = {8 * static_cast<unsigned>(info.processors), 1, 1};
  impl_->launch.threads = {256, 1, 1};
  impl_->sum = cuda::allocate(sizeof(std::uint64_t), "hash");
}

std::uint64_t DeviceHash::operator()(const std::vector<View>& arrays) const {
  auto word = [](const void* pointer) { return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(pointer)); };
  std::uint64_t sum = 0;
  cuda::copy_to_device(impl_->sum.get(), &sum, sizeof sum, nullptr);
  cuda::Launch launch = impl_->launch;
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    const View& array = arrays[k];
    const std::int64_t bytes =
        element_count(array.shape, array.type, "") * static_cast<std::int64_t>(bytes_of(array.type));
    if (bytes == 0) continue;
    launch.parameters = {word(array.data), bytes, static_cast<std::int64_t>(k), word(impl_->sum.get())};
    cuda::launch(launch, nullptr, "hash");
  }
  cuda::copy_to_host(&sum, impl_->sum.get(), sizeof sum, nullptr);
  return sum;
}

}  // namespace loopgrad::cli
