#include "backends/interface/memory.h"

#include "backends/cuda/device.h"
#include "dsl/ir/node.h"

#include <loopgrad/error.h>

#include <cstring>

namespace loopgrad::backend {
namespace {

class HostMemory final : public Memory {
 public:
  Device device() const override { return Device::Host; }
  OwnedArray make_array(ScalarType type, const std::vector<std::int64_t>& shape) const override {
    auto array = std::make_shared<HostArray>(type, shape);
    return {array, array->view(), array->bytes()};
  }
  void copy_in(void* to, const void* from, std::int64_t bytes) const override { copy(to, from, bytes); }
  void copy_out(void* to, const void* from, std::int64_t bytes, void*) const override { copy(to, from, bytes); }
  void synchronize() const override {}
  bool is_capturing(void*) const override { return false; }
  View on_host(const View& view, std::deque<HostArray>&) const override { return view; }
  void check_pointer(const ir::ArrayDecl& array, const View& view, int, const std::string& program) const override {
    // Asking starts the driver, so only processes that use it anyway do.
    if (cuda::in_use() && cuda::place_of(view.data).kind == cuda::Place::Kind::OneDevice)
      refuse_memory(array, program, "the pointer is memory of a CUDA device",
                    "use Target::Cuda, or copy the array to the host");
  }

 private:
  static void copy(void* to, const void* from, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
};

}  // namespace

const Memory& host_memory() {
  static const HostMemory memory;
  return memory;
}

void refuse_memory(const ir::ArrayDecl& array, const std::string& program, const std::string& message,
                   const std::string& hint) {
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = message,
                    .program = program,
                    .array = array.name,
                    .hint = hint,
                    .location = array.location});
}

}  // namespace loopgrad::backend
