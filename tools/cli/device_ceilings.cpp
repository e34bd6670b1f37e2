#include "backends/cuda/device.h"
#include "backends/cuda/nvrtc.h"
#include "tools/cli/ceilings.h"

#include <algorithm>

namespace loopgrad::cli {
namespace {

namespace cuda = backend::cuda;

constexpr const char* ceilings_source = R"(
extern "C" __global__ void copy(const float4* from, float4* to, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    to[i] = from[i];
}
extern "C" __global__ void multiply_add(float* out, long long rounds) {
  float s[8];
  for (int k = 0; k < 8; ++k) s[k] = threadIdx.x + k;
#pragma unroll 16
  for (long long r = 0; r < rounds; ++r)
#pragma unroll
    for (int k = 0; k < 8; ++k) s[k] = s[k] * 1.000001f + 0.5f;
  float sum = 0;
  for (int k = 0; k < 8; ++k) sum += s[k];
  if (sum == -1.0f) out[0] = sum;
}
)";

double best_milliseconds(const cuda::Launch& launch) {
  cuda::Timer timer;
  double best = 1e30;
  for (int run = 0; run < 6; ++run) {  // the first one warms up
    timer.start();
    for (int i = 0; i < 5; ++i) cuda::launch(launch, nullptr, "");
    const double ms = timer.stop() / 5;
    if (run > 0) best = std::min(best, ms);
  }
  return best;
}

}  // namespace

Ceilings measure_device_ceilings() {
  const cuda::DeviceInfo& info = cuda::device("");
  const cuda::Module module(backend::compile_cubin(ceilings_source, info.architecture, "ceilings"), "");
  constexpr std::int64_t bytes = std::int64_t{1} << 30;
  const auto from = cuda::allocate(bytes, ""), to = cuda::allocate(bytes, "");
  const std::string name = "ceilings";
  auto word = [](const void* pointer) { return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(pointer)); };
  const auto blocks = static_cast<unsigned>(info.processors);

  Ceilings ceilings;
  cuda::Launch launch;
  launch.function = module.function("copy", "");
  launch.grid = {16 * blocks, 1, 1};
  launch.threads = {256, 1, 1};
  launch.kernel = &name;
  launch.parameters = {word(from.get()), word(to.get()), bytes / 16};
  ceilings.bytes_per_second = 2.0 * bytes / (1e-3 * best_milliseconds(launch));

  constexpr std::int64_t rounds = 4096;
  launch.function = module.function("multiply_add", "");
  launch.grid = {8 * blocks, 1, 1};
  launch.parameters = {word(to.get()), rounds};
  const double operations = 2.0 * 8 * rounds * 8 * info.processors * 256;
  ceilings.flops_per_second = operations / (1e-3 * best_milliseconds(launch));
  return ceilings;
}

}  // namespace loopgrad::cli
