#include "backends/cuda/device_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::backend::cuda {

constexpr int least_major = 7;  // compute capability 7.0: independent thread scheduling, 16-bit atomics

void check_capability(const std::string& name, int major, int minor, const std::string& program) {
  if (major >= least_major) return;
  throw RuntimeError({.code = ErrorCode::NoDevice,
                      .message = fmt::format("the GPU '{}' has compute capability {}.{}, but {}.0 or later is needed",
                                             name, major, minor, least_major),
                      .program = program,
                      .hint = "use another GPU or Target::OpenMP"});
}

void check_architecture(const std::string& architecture, const std::vector<int>& known, const std::string& toolkit,
                        const std::string& program) {
  const auto matches = [&](int number) { return architecture == fmt::format("sm_{}", number); };
  if (known.empty() || std::any_of(known.begin(), known.end(), matches)) return;
  throw CompileError({.code = ErrorCode::NoCompiler,
                      .message = fmt::format("NVRTC {} makes no code for {}, only for sm_{}", toolkit, architecture,
                                             fmt::join(known, ", sm_")),
                      .program = program,
                      .hint = "install a CUDA toolkit that knows this GPU, or use Target::OpenMP"});
}

void check_block(std::int64_t threads, int most, const std::string& kernel, const std::string& program) {
  if (threads <= most) return;
  throw UsageError(
      {.code = ErrorCode::BadArgument,
       .message = fmt::format("kernel '{}' is to run with {} threads in a block, and the device can run {}", kernel,
                              threads, most),
       .program = program,
       .hint = "set CompileOptions::threads_per_block to less"});
}

void check_current_device(int compiled_for, int current, const std::string& program) {
  if (compiled_for == current) return;
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = fmt::format("the program was compiled for CUDA device {}, and device {} is current",
                                           compiled_for, current),
                    .program = program,
                    .hint = fmt::format("call cudaSetDevice({}) before, or compile it for this device", compiled_for)});
}

}  // namespace loopgrad::backend::cuda
