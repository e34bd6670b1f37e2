#include "backends/cuda/device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <loopgrad/error.h>

#include <map>
#include <mutex>

namespace loopgrad::backend::cuda {
namespace {

constexpr int least_major = 7;  // compute capability 7.0: independent thread scheduling, 16-bit atomics

[[noreturn]] void fail(cudaError_t status, const std::string& call, const Context& context) {
  cudaGetLastError();  // an error of a call is over once it is reported
  const bool lost = status == cudaErrorIllegalAddress || status == cudaErrorLaunchFailure;
  const bool memory = status == cudaErrorMemoryAllocation;
  throw RuntimeError(
      {.code = memory ? ErrorCode::OutOfMemory : ErrorCode::DeviceFailed,
       .message = fmt::format("{}{} failed: {} ({})", call,
                              context.kernel.empty() ? "" : fmt::format(" of kernel '{}'", context.kernel),
                              cudaGetErrorString(status), cudaGetErrorName(status)),
       .program = context.program,
       .hint = lost ? "the device is lost to this process; check the arguments with Target::Interpreter and "
                      "'checked', then start again"
                    : ""});
}

void require(cudaError_t status, const char* call, const Context& context = {}) {
  if (status != cudaSuccess) fail(status, call, context);
}

[[noreturn]] void no_device(const std::string& why, const std::string& hint, const std::string& program) {
  throw RuntimeError({.code = ErrorCode::NoDevice, .message = why, .program = program, .hint = hint});
}

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream); }

DeviceInfo query(int index) {
  cudaDeviceProp p{};
  require(cudaGetDeviceProperties(&p, index), "cudaGetDeviceProperties");
  return {p.name,
          fmt::format("sm_{}{}", p.major, p.minor),
          p.major,
          p.multiProcessorCount,
          static_cast<std::int64_t>(p.sharedMemPerBlockOptin),
          p.maxThreadsPerMultiProcessor,
          p.maxThreadsPerBlock};
}

/// Blocks that were released, by size, for each device. Nothing goes back to the driver before memory runs out.
class Pool {
 public:
  void* take(std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    const auto found = free_.find({current(), bytes});
    if (found == free_.end() || found->second.empty()) return nullptr;
    void* const block = found->second.back();
    found->second.pop_back();
    return block;
  }
  void give(int device, std::int64_t bytes, void* block) {
    std::lock_guard lock(mutex_);
    free_[{device, bytes}].push_back(block);
  }
  void trim() {
    std::lock_guard lock(mutex_);
    for (auto& [key, blocks] : free_) {
      if (key.first != current()) continue;
      for (void* block : blocks) cudaFree(block);
      blocks.clear();
    }
  }
  static int current() {
    int index = 0;
    cudaGetDevice(&index);
    return index;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::int64_t>, std::vector<void*>> free_;
};

Pool& pool() {
  static Pool* const kept = new Pool;  // never destroyed: the driver may be gone by then
  return *kept;
}

/// Sizes are rounded so that a pool of arrays of similar sizes stays small.
std::int64_t rounded(std::int64_t bytes) {
  const std::int64_t step = bytes <= (1 << 20) ? 512 : 1 << 20;
  return std::max<std::int64_t>((bytes + step - 1) / step, 1) * step;
}

}  // namespace

const DeviceInfo& device(const std::string& program) {
  int count = 0, index = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    no_device(status == cudaErrorInsufficientDriver
                  ? "the NVIDIA driver is missing or older than the CUDA runtime that loopgrad was built with"
                  : fmt::format("there is no GPU to run on ({})", cudaGetErrorString(status)),
              "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use Target::OpenMP", program);
  }
  require(cudaGetDevice(&index), "cudaGetDevice", {program, ""});
  static std::mutex mutex;
  static std::map<int, DeviceInfo> known;
  std::lock_guard lock(mutex);
  const auto found = known.find(index);
  if (found != known.end()) return found->second;
  const DeviceInfo info = query(index);
  if (info.major < least_major)
    no_device(fmt::format("the GPU '{}' has compute capability {}, but {}.0 or later is needed", info.name,
                          info.architecture, least_major),
              "use another GPU or Target::OpenMP", program);
  return known[index] = info;
}

std::shared_ptr<void> allocate(std::int64_t bytes, const std::string& program) {
  device(program);
  const std::int64_t size = rounded(bytes);
  void* block = pool().take(size);
  if (!block && cudaMalloc(&block, static_cast<std::size_t>(size)) != cudaSuccess) {
    cudaGetLastError();
    cudaDeviceSynchronize();
    pool().trim();
    const cudaError_t status = cudaMalloc(&block, static_cast<std::size_t>(size));
    if (status == cudaErrorMemoryAllocation) {
      std::size_t free = 0, total = 0;
      cudaGetLastError();
      cudaMemGetInfo(&free, &total);
      throw RuntimeError({.code = ErrorCode::OutOfMemory,
                          .message = fmt::format("cudaMalloc of {} bytes failed: {} of {} bytes are free on the device",
                                                 size, free, total),
                          .program = program,
                          .hint = "run with smaller sizes, or free other arrays of the device"});
    }
    require(status, "cudaMalloc", {program, ""});
  }
  const int owner = Pool::current();
  return {block, [size, owner](void* b) {
            // Work that still uses the block may be on any stream; giving memory back is no steady state.
            cudaDeviceSynchronize();
            pool().give(owner, size, b);
          }};
}

void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) {
  require(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, native(stream)),
          "cudaMemcpyAsync to the device");
}

void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) {
  require(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, native(stream)),
          "cudaMemcpyAsync to the host");
  require(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
}

void synchronize(Stream stream, const Context& context) {
  require(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize", context);
}

void synchronize_device() { require(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

bool is_device_memory(const void* pointer) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

Module::Module(const std::string& cubin, const std::string& program) {
  cudaLibrary_t library = nullptr;
  require(cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "cudaLibraryLoadData",
          {program, ""});
  library_ = std::shared_ptr<void>(library, [](void* l) { cudaLibraryUnload(static_cast<cudaLibrary_t>(l)); });
}

const void* Module::function(const std::string& name, const std::string& program) const {
  cudaKernel_t kernel = nullptr;
  require(cudaLibraryGetKernel(&kernel, static_cast<cudaLibrary_t>(library_.get()), name.c_str()),
          "cudaLibraryGetKernel", {program, name});
  return kernel;
}

void allow_shared_memory(const void* function, std::int64_t bytes, const Context& context) {
  require(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)", context);
}

void launch(const Launch& what, Stream stream, const std::string& program) {
  std::vector<void*> parameters;
  for (const std::int64_t& word : what.parameters) parameters.push_back(const_cast<std::int64_t*>(&word));
  const cudaError_t status =
      cudaLaunchKernel(what.function, dim3(what.grid[0], what.grid[1], what.grid[2]),
                       dim3(what.threads[0], what.threads[1], what.threads[2]), parameters.data(),
                       static_cast<std::size_t>(what.shared_bytes), native(stream));
  if (status != cudaSuccess)
    fail(status,
         fmt::format("cudaLaunchKernel with {} x {} x {} threads", what.threads[0], what.threads[1], what.threads[2]),
         {program, what.kernel ? *what.kernel : ""});
}

Graph::Graph(const std::vector<Launch>& launches, const std::string& program) {
  const Context context{program, ""};
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate", context);
  const std::shared_ptr<void> owner(stream, [](void* s) { cudaStreamDestroy(static_cast<cudaStream_t>(s)); });
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture", context);
  cudaGraph_t graph = nullptr;
  try {
    for (const Launch& one : launches) cuda::launch(one, stream, program);
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph) cudaGraphDestroy(graph);
    throw;
  }
  require(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture", context);
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  require(status, "cudaGraphInstantiate", context);
  executable_ = std::shared_ptr<void>(executable, [](void* e) {
    cudaDeviceSynchronize();
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(e));
  });
}

void Graph::launch(Stream stream, const std::string& program) const {
  require(cudaGraphLaunch(static_cast<cudaGraphExec_t>(executable_.get()), native(stream)), "cudaGraphLaunch",
          {program, ""});
}

bool is_capturing(Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(native(stream), &status) != cudaSuccess) {
    cudaGetLastError();
    return true;  // the default stream while another one is being captured
  }
  return status != cudaStreamCaptureStatusNone;
}

Timer::Timer() {
  for (std::shared_ptr<void>* event : {&begin_, &end_}) {
    cudaEvent_t e = nullptr;
    require(cudaEventCreate(&e), "cudaEventCreate");
    *event = std::shared_ptr<void>(e, [](void* x) { cudaEventDestroy(static_cast<cudaEvent_t>(x)); });
  }
}

void Timer::start() { require(cudaEventRecord(static_cast<cudaEvent_t>(begin_.get()), nullptr), "cudaEventRecord"); }

double Timer::stop() {
  require(cudaEventRecord(static_cast<cudaEvent_t>(end_.get()), nullptr), "cudaEventRecord");
  require(cudaEventSynchronize(static_cast<cudaEvent_t>(end_.get())), "cudaEventSynchronize");
  float ms = 0;
  require(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(begin_.get()), static_cast<cudaEvent_t>(end_.get())),
          "cudaEventElapsedTime");
  return ms;
}

}  // namespace loopgrad::backend::cuda
