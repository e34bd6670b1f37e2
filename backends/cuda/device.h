// The CUDA runtime as the backend uses it: errors thrown with what was being done, no CUDA type outside of device.cpp.
// A build without the toolkit has the same functions, which throw RuntimeError(NoDevice).
#pragma once

#include "backends/cuda/launch_order.h"

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
  int major = 0, minor = 0;
  int processors = 0;
  std::int64_t shared_bytes = 0;  // the most that a block can ask for
  int threads_per_processor = 0;
  int threads_per_block = 0;
};

/// The current device. Throws RuntimeError(NoDevice): built without the toolkit, no driver, no GPU, GPU too old.
const DeviceInfo& device(const std::string& program);

int current_device();
/// Whether `device` has found one in this process.
bool in_use();

/// Memory from the pool. Throws RuntimeError(OutOfMemory) with the bytes asked for and free.
std::shared_ptr<void> allocate(std::int64_t bytes, const std::string& program);

/// Of all that `allocate` gave, in bytes, on all devices.
struct MemoryUse {
  std::int64_t in_use = 0, peak = 0;
};
MemoryUse memory_use();
/// The peak counts from now on.
void forget_memory_peak();

void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream);
/// Waits until the bytes are there.
void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream);
void synchronize(Stream stream, const Context& context);
void synchronize_device();

/// Where memory is that someone else allocated.
struct Place {
  enum class Kind { Host, OneDevice, AnyDevice };
  Kind kind = Kind::Host;
  int device = 0;
};
Place place_of(const void* pointer);

/// Throws UsageError(BadArgument) for a stream of another device than `due`. Not while the stream is captured.
void check_stream(Stream stream, int due, const std::string& program);

/// For the message of an error that shows later only.
void note_started(const std::string& program);

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

class MatrixLibrary;
struct Product;

/// A kernel, or a product of matrices by the library.
struct Launch {
  const void* function = nullptr;
  std::array<unsigned, 3> grid = {1, 1, 1}, threads = {1, 1, 1};
  std::int64_t shared_bytes = 0;
  std::vector<std::int64_t> parameters;  // 8 bytes each
  const std::string* kernel = nullptr;   // its name
  std::shared_ptr<const Product> product;
  std::shared_ptr<const MatrixLibrary> library;  // with a product only
};

/// Of a block that runs this function, as its registers allow.
int most_threads(const void* function, const Context& context);
/// Lets a function use this much dynamic shared memory.
void allow_shared_memory(const void* function, std::int64_t bytes, const Context& context);
void launch(const Launch& what, Stream stream, const std::string& program);

/// Starts launches on a stream that is being captured into a graph, as branches of that graph where `order` allows.
void record_launches(const std::vector<Launch>& launches, const LaunchOrder& order, Stream stream,
                     const std::string& program);

/// Launches recorded once and repeated as a whole.
class Graph {
 public:
  Graph() = default;
  Graph(const std::vector<Launch>& launches, const LaunchOrder& order, const std::string& program);
  explicit operator bool() const { return executable_ != nullptr; }
  void launch(Stream stream, const std::string& program) const;

 private:
  std::shared_ptr<void> executable_;
};

/// Makes runs that share memory follow each other when they are on different streams, without the host waiting.
class Order {
 public:
  void note(Stream stream, const std::string& program);          // a run was started there
  void follow(Stream stream, const std::string& program) const;  // the next one is going to be

 private:
  std::shared_ptr<void> event_;
  Stream last_ = nullptr;
};

/// Whether the caller is recording the stream into a graph of their own.
bool is_capturing(Stream stream);

/// Milliseconds on the device between two points of a stream.
class Timer {
 public:
  Timer();
  void start(Stream stream = nullptr);
  double stop(Stream stream = nullptr);  // waits

 private:
  std::shared_ptr<void> begin_, end_;
};

}  // namespace loopgrad::backend::cuda
