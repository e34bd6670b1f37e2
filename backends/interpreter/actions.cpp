#include "backends/interpreter/actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace loopgrad::backend::interpreter {
namespace {

/// splitmix64: the same order on every platform, which the standard distributions do not promise.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t end) {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % end;
  }

 private:
  std::uint64_t state_;
};

std::vector<std::int64_t> shuffled_range(std::int64_t from, std::int64_t to, std::uint64_t seed) {
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(to - from));
  for (std::int64_t i = from; i < to; ++i) order.push_back(i);
  Random random(seed);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace

void ForAction::check_trips(std::int64_t from, std::int64_t to) const {
  if (!at_most || to <= from) return;
  const std::int64_t limit = at_most->eval();
  std::int64_t trips = 0;
  if (!__builtin_sub_overflow(to, from, &trips) && trips <= limit) return;
  fail(*site, ErrorCode::BadIndex,
       fmt::format("the loop from {} to {} makes more trips than the {} that at_most promises", from, to, limit),
       "correct the promise or the bounds", slot);
}

void ForAction::run() const {
  const std::int64_t from = lower->eval(), to = upper->eval();
  check_trips(from, to);
  if (from >= to) return;
  if (backward) {
    for (std::int64_t i = to; i > from;) {
      slot->value = --i;
      body->run();
    }
  } else {
    for (std::int64_t i = from; i < to; ++i) {
      slot->value = i;
      body->run();
    }
  }
}

void ShuffledForAction::run() const {
  const std::int64_t from = lower->eval(), to = upper->eval();
  check_trips(from, to);
  if (from >= to) return;
  const std::int64_t instance = ++parallel->entries;
  parallel->frames.push_back({instance, 0, slot, false});
  for (const std::int64_t i : shuffled_range(from, to, seed ^ (static_cast<std::uint64_t>(instance) << 32))) {
    slot->value = i;
    parallel->frames.back().iteration = i;
    if (is_block) {
      parallel->block = parallel->frames.size();
      parallel->frames.push_back({++parallel->entries, all_threads, slot, true});
    }
    body->run();
    if (is_block) parallel->frames.pop_back();
  }
  parallel->frames.pop_back();
}

void ThreadsAction::run() const {
  const std::int64_t from = lower->eval(), to = upper->eval();
  const std::size_t block = parallel->block;
  const ParallelFrame outside = parallel->frames[block];
  const std::int64_t first = outside.iteration == all_threads ? 0 : outside.iteration * (to - from);
  const auto instance = static_cast<std::uint64_t>(++parallel->entries);
  parallel->frames[block].loop = slot;
  for (const std::int64_t i : shuffled_range(from, std::max(from, to), seed ^ (instance << 32))) {
    slot->value = i;
    parallel->frames[block].iteration = first + i;
    body->run();
  }
  parallel->frames[block].iteration = outside.iteration;
  parallel->frames[block].loop = outside.loop;
}

void WhileAction::run() const {
  const std::int64_t trips = max_trips->eval();
  for (slot->value = 0; slot->value < trips && condition->eval(); ++slot->value) body->run();
}

void AllocateAction::run() const {
  for (std::size_t d = 0; d < extents.size(); ++d) slot->shape[d] = extents[d]->eval();
  std::size_t elements = 1;
  if (!extents.empty()) {
    try {
      elements = static_cast<std::size_t>(element_count(slot->shape, type, slot->decl->name));
    } catch (const UsageError&) {
      fail(*site, ErrorCode::BadSize,
           fmt::format("the extents [{}] are negative or their bytes do not fit in 64 bits",
                       fmt::join(slot->shape, ", ")),
           "correct the array's shape or use other sizes");
    }
  }
  const std::size_t bytes = elements * bytes_of(type);
  if (bytes > slot->owned_bytes || !slot->data) {
    slot->owned.reset(new (std::nothrow) std::byte[bytes]());
    slot->owned_bytes = slot->owned ? bytes : 0;
    slot->data = slot->owned.get();
    if (!slot->data) {
      fail(*site, ErrorCode::OutOfMemory, fmt::format("cannot allocate {} bytes", bytes), "use smaller sizes");
    }
  }
  const std::size_t levels = parallel->frames.size();
  slot->copied_from = {};
  if (slot->element_of) slot->element_of->clear();
  if (slot->shadow)
    slot->shadow->reset(static_cast<std::int64_t>(elements), levels, of_block ? parallel->block : Shadow::no_level);
  body->run();
}

}  // namespace loopgrad::backend::interpreter
