// Memory of the device: a pool over cudaMalloc, copies, and what a pointer points to.
#include "backends/cuda/native.h"

#include <fmt/format.h>
#include <loopgrad/error.h>

#include <limits>
#include <map>
#include <mutex>

namespace loopgrad::backend::cuda {
namespace {

/// Blocks that were released, by size, for each device. Nothing goes back to the driver before memory runs out.
class Pool {
 public:
  void* take(int device, std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    const auto found = free_.find({device, bytes});
    if (found == free_.end() || found->second.empty()) return nullptr;
    void* const block = found->second.back();
    found->second.pop_back();
    return block;
  }
  void give(int device, std::int64_t bytes, void* block) {
    std::lock_guard lock(mutex_);
    free_[{device, bytes}].push_back(block);
    use_.in_use -= bytes;
  }
  void note_taken(std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    use_.in_use += bytes;
    use_.peak = std::max(use_.peak, use_.in_use);
  }
  void trim(int device) {
    std::lock_guard lock(mutex_);
    for (auto& [key, blocks] : free_) {
      if (key.first != device) continue;
      for (void* block : blocks) cudaFree(block);
      blocks.clear();
    }
  }
  MemoryUse use() {
    std::lock_guard lock(mutex_);
    return use_;
  }
  void forget_peak() {
    std::lock_guard lock(mutex_);
    use_.peak = use_.in_use;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, std::int64_t>, std::vector<void*>> free_;
  MemoryUse use_;
};

Pool& pool() {
  static Pool* const kept = new Pool;  // never destroyed: the driver may be gone by then
  return *kept;
}

/// Sizes are rounded so that a pool of arrays of similar sizes stays small.
std::int64_t rounded(std::int64_t bytes) {
  const std::int64_t step = bytes <= (1 << 20) ? 512 : 1 << 20;
  if (bytes > std::numeric_limits<std::int64_t>::max() - step) return bytes;  // no device has them
  return std::max<std::int64_t>((bytes + step - 1) / step, 1) * step;
}

/// Gives up what the pool keeps before it gives up itself.
void* allocate_block(std::int64_t bytes, int device, const std::string& program) {
  void* block = nullptr;
  if (cudaMalloc(&block, static_cast<std::size_t>(bytes)) == cudaSuccess) return block;
  cudaGetLastError();
  cudaDeviceSynchronize();
  pool().trim(device);
  const cudaError_t status = cudaMalloc(&block, static_cast<std::size_t>(bytes));
  if (status == cudaSuccess) return block;
  if (status != cudaErrorMemoryAllocation) fail(status, "cudaMalloc", {program, ""});
  std::size_t free = 0, total = 0;
  cudaGetLastError();
  cudaMemGetInfo(&free, &total);
  throw RuntimeError({.code = ErrorCode::OutOfMemory,
                      .message = fmt::format("cudaMalloc of {} bytes failed: {} of {} bytes are free on the device",
                                             bytes, free, total),
                      .program = program,
                      .hint = "run with smaller sizes, or free other arrays of the device"});
}

}  // namespace

std::shared_ptr<void> allocate(std::int64_t bytes, const std::string& program) {
  device(program);
  const std::int64_t size = rounded(bytes);
  const int owner = current_device();
  void* block = pool().take(owner, size);
  if (!block) block = allocate_block(size, owner, program);
  pool().note_taken(size);
  return {block, [size, owner](void* b) {
            // Work that still uses the block may be on any stream; giving memory back is no steady state.
            const DeviceScope scope(owner);
            cudaDeviceSynchronize();
            pool().give(owner, size, b);
          }};
}

MemoryUse memory_use() { return pool().use(); }
void forget_memory_peak() { pool().forget_peak(); }

void copy_to_device(void* to, const void* from, std::int64_t bytes, Stream stream) {
  require(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, native(stream)),
          "cudaMemcpyAsync to the device");
}

void copy_to_host(void* to, const void* from, std::int64_t bytes, Stream stream) {
  require(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, native(stream)),
          "cudaMemcpyAsync to the host");
  require(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
}

Place place_of(const void* pointer) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  if (attributes.type == cudaMemoryTypeManaged) return {Place::Kind::AnyDevice, attributes.device};
  if (attributes.type == cudaMemoryTypeDevice) return {Place::Kind::OneDevice, attributes.device};
  return {};
}

}  // namespace loopgrad::backend::cuda
