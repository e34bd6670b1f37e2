#include "dsl/frontend/out_of_memory.h"

#include <atomic>
#include <cstdlib>

namespace loopgrad {
namespace {

constexpr std::size_t spare_bytes = 16 * 1024;

std::atomic<void*> spare = nullptr;

}  // namespace

void keep_spare_memory() {
  if (spare.load(std::memory_order_relaxed)) return;
  void* const block = std::malloc(spare_bytes);
  void* none = nullptr;
  if (!spare.compare_exchange_strong(none, block)) std::free(block);
}

void throw_out_of_memory(const std::string& program) {
  std::free(spare.exchange(nullptr));
  throw RuntimeError({.code = ErrorCode::OutOfMemory,
                      .message = "memory has run out",
                      .program = program,
                      .hint = "use smaller sizes, or free memory"});
}

}  // namespace loopgrad
