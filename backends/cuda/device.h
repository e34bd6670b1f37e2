// The CUDA runtime as the backend uses it: errors thrown with what was being done, no CUDA type outside of device.cpp.
// A build without the toolkit has the same functions, which throw RuntimeError(NoDevice).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace loopgrad::backend::cuda {

using Stream = void*;  // a cudaStream_t; null is the default stream

/// For messages: what is being done for which program.
struct Context {
  std::string program, kernel;
};

struct DeviceInfo {
  std::string name;
  std::string architecture;  // "sm_90"
  int major = 0;
  int processors = 0;
  std::int64_t shared_bytes = 0;  // the most that a block can ask for
  int threads_per_processor = 0;
  int threads_per_block = 0;
};

/// The current device. Throws RuntimeError(NoDevice): built without the toolkit, no driver, no GPU, GPU too old.
const DeviceInfo& device(const std::string& program);

/// Memory from the pool. Throws RuntimeError(OutOfMemory) with the bytes asked for and free.
std::shared_ptr<void> allocate(std::int64_t bytes, const std::string& program);

void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream);
/// Waits until the bytes are there.
void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream);
void synchronize(Stream stream, const Context& context);
void synchronize_device();

/// False for memory that the device cannot reach, as plain host memory.
bool is_device_memory(const void* pointer);

/// Loaded machine code.
class Module {
 public:
  Module() = default;
  /// Throws RuntimeError(DeviceFailed).
  Module(const std::string& cubin, const std::string& program);
  /// A function of the module; lives as long as the module.
  const void* function(const std::string& name, const std::string& program) const;

 private:
  std::shared_ptr<void> library_;
};

struct Launch {
  const void* function = nullptr;
  std::array<unsigned, 3> grid = {1, 1, 1}, threads = {1, 1, 1};
  std::int64_t shared_bytes = 0;
  std::vector<std::int64_t> parameters;  // 8 bytes each
  const std::string* kernel = nullptr;   // its name
};

/// Lets a function use this much dynamic shared memory.
void allow_shared_memory(const void* function, std::int64_t bytes, const Context& context);
void launch(const Launch& what, Stream stream, const std::string& program);

/// Launches recorded once and repeated as a whole.
class Graph {
 public:
  Graph() = default;
  Graph(const std::vector<Launch>& launches, const std::string& program);
  explicit operator bool() const { return executable_ != nullptr; }
  void launch(Stream stream, const std::string& program) const;

 private:
  std::shared_ptr<void> executable_;
};

/// Whether the caller is recording the stream into a graph of their own.
bool is_capturing(Stream stream);

/// Milliseconds on the device between two points of the default stream.
class Timer {
 public:
  Timer();
  void start();
  double stop();  // waits

 private:
  std::shared_ptr<void> begin_, end_;
};

}  // namespace loopgrad::backend::cuda
