#include "backends/cuda/device_checks.h"
#include "backends/cuda/matrix_library.h"
#include "backends/cuda/native.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <atomic>
#include <map>
#include <mutex>

namespace loopgrad::backend::cuda {
namespace {

/// Errors after which the driver refuses all further work of this process.
bool is_final(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable: return true;
    default: return false;
  }
}

/// The program that was started last: what fails on the device is reported by whichever call comes next.
class LastStarted {
 public:
  void set(const std::string& program) {
    std::lock_guard lock(mutex_);
    if (name_ != program) name_ = program;
  }
  std::string get() {
    std::lock_guard lock(mutex_);
    return name_;
  }

 private:
  std::mutex mutex_;
  std::string name_;
};

LastStarted& last_started() {
  static LastStarted* const kept = new LastStarted;
  return *kept;
}

std::atomic<bool> found_device{false};

[[noreturn]] void no_device(const std::string& why, const std::string& hint, const std::string& program) {
  throw RuntimeError({.code = ErrorCode::NoDevice, .message = why, .program = program, .hint = hint});
}

DeviceInfo query(int index) {
  cudaDeviceProp p{};
  require(cudaGetDeviceProperties(&p, index), "cudaGetDeviceProperties");
  return {p.name,
          fmt::format("sm_{}{}", p.major, p.minor),
          p.major,
          p.minor,
          p.multiProcessorCount,
          static_cast<std::int64_t>(p.sharedMemPerBlockOptin),
          p.maxThreadsPerMultiProcessor,
          p.maxThreadsPerBlock};
}

}  // namespace

void fail(cudaError_t status, const std::string& call, const Context& context) {
  cudaGetLastError();  // an error of a call is over once it is reported
  const bool memory = status == cudaErrorMemoryAllocation, lost = is_final(status);
  std::string program = context.program, what = call;
  if (!context.kernel.empty()) what += fmt::format(" of kernel '{}'", context.kernel);
  if (lost && program.empty()) program = last_started().get();
  throw RuntimeError(
      {.code = memory ? ErrorCode::OutOfMemory : ErrorCode::DeviceFailed,
       .message = fmt::format("{} failed: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)),
       .program = program,
       .hint = lost ? "a kernel that was started before has failed, and the device is lost to this process: other "
                      "targets still work. CUDA_LAUNCH_BLOCKING=1 tells which kernel; Target::Interpreter with "
                      "'checked' tells why"
                    : ""});
}

void note_started(const std::string& program) { last_started().set(program); }

bool in_use() { return found_device; }

int current_device() {
  int index = 0;
  require(cudaGetDevice(&index), "cudaGetDevice");
  return index;
}

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
  check_capability(info.name, info.major, info.minor, program);
  found_device = true;
  return known[index] = info;
}

void synchronize(Stream stream, const Context& context) {
  require(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize", context);
}

void synchronize_device() { require(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

void check_stream(Stream stream, int due, const std::string& program) {
  if (!stream) return;
  int owner = due;
  require(cudaStreamGetDevice(native(stream), &owner), "cudaStreamGetDevice", {program, ""});
  if (owner == due) return;
  throw UsageError(
      {.code = ErrorCode::BadArgument,
       .message = fmt::format("the stream belongs to CUDA device {}, and the program runs on device {}", owner, due),
       .program = program,
       .hint = "make the stream while the program's device is current"});
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

int most_threads(const void* function, const Context& context) {
  cudaFuncAttributes attributes{};
  require(cudaFuncGetAttributes(&attributes, function), "cudaFuncGetAttributes", context);
  return attributes.maxThreadsPerBlock;
}

void allow_shared_memory(const void* function, std::int64_t bytes, const Context& context) {
  require(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)", context);
}

void launch(const Launch& what, Stream stream, const std::string& program) {
  if (what.product) return what.library->multiply(*what.product, stream, program);
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

bool is_capturing(Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(native(stream), &status) != cudaSuccess) {
    cudaGetLastError();
    return true;  // the default stream while another one is being captured
  }
  return status != cudaStreamCaptureStatusNone;
}

void Order::note(Stream stream, const std::string& program) {
  const Context context{program, ""};
  if (!event_) {
    cudaEvent_t event = nullptr;
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate", context);
    event_ = std::shared_ptr<void>(event, [](void* e) { cudaEventDestroy(static_cast<cudaEvent_t>(e)); });
  }
  require(cudaEventRecord(static_cast<cudaEvent_t>(event_.get()), native(stream)), "cudaEventRecord", context);
  last_ = stream;
}

void Order::follow(Stream stream, const std::string& program) const {
  if (!event_ || stream == last_) return;
  require(cudaStreamWaitEvent(native(stream), static_cast<cudaEvent_t>(event_.get()), 0), "cudaStreamWaitEvent",
          {program, ""});
}

Timer::Timer() {
  for (std::shared_ptr<void>* event : {&begin_, &end_}) {
    cudaEvent_t e = nullptr;
    require(cudaEventCreate(&e), "cudaEventCreate");
    *event = std::shared_ptr<void>(e, [](void* x) { cudaEventDestroy(static_cast<cudaEvent_t>(x)); });
  }
}

void Timer::start(Stream stream) {
  require(cudaEventRecord(static_cast<cudaEvent_t>(begin_.get()), native(stream)), "cudaEventRecord");
}

double Timer::stop(Stream stream) {
  require(cudaEventRecord(static_cast<cudaEvent_t>(end_.get()), native(stream)), "cudaEventRecord");
  require(cudaEventSynchronize(static_cast<cudaEvent_t>(end_.get())), "cudaEventSynchronize");
  float ms = 0;
  require(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(begin_.get()), static_cast<cudaEvent_t>(end_.get())),
          "cudaEventElapsedTime");
  return ms;
}

}  // namespace loopgrad::backend::cuda
