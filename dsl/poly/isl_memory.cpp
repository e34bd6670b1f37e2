#include "dsl/poly/isl_memory.h"

#include <gmp.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

// Of libgmp, though in no header: what it uses unless told otherwise, and ends the process with.
extern "C" void* __gmp_default_allocate(std::size_t bytes);

namespace loopgrad::poly {
namespace {

struct Watched {
  std::thread::id thread;
  isl_ctx* context;
};

/// The contexts that there are.
struct Registry {
  std::mutex mutex;
  std::vector<Watched> contexts;
};

Registry& registry() {
  static Registry* const kept = new Registry;  // never destroyed: GMP may free numbers later
  return *kept;
}

/// Memory that is there before any is short. Pieces are handed out one after the other; all of it is free again when
/// every piece has come back.
class Reserve {
 public:
  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t rounded = (bytes + 15) / 16 * 16;
    if (rounded > size - used_) return nullptr;
    void* const piece = memory + used_;
    used_ += rounded;
    ++pieces_;
    return piece;
  }
  bool holds(const void* piece) const { return piece >= memory && piece < memory + size; }
  void give() {
    const std::lock_guard lock(mutex_);
    if (--pieces_ == 0) used_ = 0;
  }

 private:
  static constexpr std::size_t size = std::size_t{4} << 20;
  alignas(16) static inline char memory[size];
  std::mutex mutex_;
  std::size_t used_ = 0, pieces_ = 0;
};

Reserve& reserve() {
  static Reserve* const kept = new Reserve;
  return *kept;
}

std::atomic<long> allocations_before_failure{-1};

bool fails_now() {
  if (allocations_before_failure.load(std::memory_order_relaxed) < 0) return false;
  return allocations_before_failure.fetch_sub(1, std::memory_order_relaxed) == 0;
}

/// Tells isl to stop and gives it what it needs meanwhile. Allocates nothing.
void* when_short(std::size_t bytes) {
  bool stopped = false;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    for (const Watched& watched : all.contexts) {
      if (watched.thread != std::this_thread::get_id()) continue;
      isl_ctx_abort(watched.context);
      stopped = true;
    }
  }
  void* const piece = stopped ? reserve().take(bytes) : nullptr;
  return piece ? piece : __gmp_default_allocate(bytes);
}

void* allocate(std::size_t bytes) {
  void* const block = fails_now() ? nullptr : std::malloc(bytes);
  return block ? block : when_short(bytes);
}

void release(void* block, std::size_t) {
  if (reserve().holds(block)) reserve().give();
  else std::free(block);
}

void* reallocate(void* block, std::size_t before, std::size_t bytes) {
  if (!reserve().holds(block))
    if (void* const larger = fails_now() ? nullptr : std::realloc(block, bytes)) return larger;
  void* const moved = allocate(bytes);
  std::memcpy(moved, block, before < bytes ? before : bytes);
  release(block, before);
  return moved;
}

/// Once, and not where the application has set functions of its own.
void install() {
  static const bool done = [] {
    void* (*now)(std::size_t) = nullptr;
    mp_get_memory_functions(&now, nullptr, nullptr);
    if (now != __gmp_default_allocate) return false;
    reserve();
    mp_set_memory_functions(allocate, reallocate, release);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

isl_ctx* allocate_context() {
  install();
  // isl_ctx_alloc() goes on with what it did not get: a block that is larger than all that it asks for must be there.
  void* volatile enough = std::malloc(std::size_t{1} << 17);  // volatile: or it would not be asked for
  if (!enough) throw std::bad_alloc();
  std::free(enough);
  isl_ctx* const context = isl_ctx_alloc();
  if (!context) throw std::bad_alloc();
  try {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    all.contexts.push_back({std::this_thread::get_id(), context});
  } catch (...) {
    isl_ctx_free(context);
    throw;
  }
  return context;
}

void free_context(isl_ctx* context) {
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.contexts, [&](const Watched& watched) { return watched.context == context; });
  }
  isl_ctx_free(context);
}

isl_error error_of_this_thread() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  isl_error latest = isl_error_none;
  for (const Watched& watched : all.contexts)
    if (watched.thread == std::this_thread::get_id())
      if (const isl_error error = isl_ctx_last_error(watched.context)) latest = error;
  return latest;
}

void fail_number_allocation_after(long count) { allocations_before_failure = count; }

}  // namespace loopgrad::poly
