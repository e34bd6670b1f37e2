#include "backends/orders.h"

#include <loopgrad/error.h>

#include <algorithm>

namespace loopgrad::backend {
namespace {

/// Sets of index arrays that a program takes turns with, such as a graph to learn from and one to test with.
constexpr std::size_t most_kept = 4;

}  // namespace

Orders::Orders(transforms::KeptOrders kept, const Memory& memory, std::string program)
    : kept_(std::move(kept)), memory_(memory), program_(std::move(program)) {}

Orders::Turn::~Turn() {
  if (set_) orders_->give(*this);
}

Orders::Key Orders::key_of(const ir::Program& program, const Binding& bound) const {
  Key key;
  for (const auto& [symbol, size] : bound.sizes) key.push_back(size);
  for (std::size_t i = 0; i < program.arrays.size(); ++i) {
    const View& view = bound.arrays[i];
    if (std::find(kept_.deciding.begin(), kept_.deciding.end(), program.arrays[i]) == kept_.deciding.end()) continue;
    if (view.version == 0) return {};
    key.push_back(reinterpret_cast<std::intptr_t>(view.data));
    key.push_back(static_cast<std::int64_t>(view.version));
    key.insert(key.end(), view.shape.begin(), view.shape.end());
  }
  return key;
}

Orders::Turn Orders::begin(const ir::Program& program, const Binding& bound, void* stream) {
  Turn turn(*this);
  turn.capturing_ = memory_.is_capturing(stream);
  turn.key_ = key_of(program, bound);
  turn.set_ = take(turn.key_, turn.capturing_);
  turn.stale_ = turn.key_.empty() || turn.set_->key != turn.key_;
  if (turn.stale_) turn.set_->key.clear();
  for (std::size_t k = 0; k < kept_.arrays.size(); ++k) {
    const ir::Array& array = kept_.arrays[k];
    View view;
    view.shape = shape_of(array, bound.sizes);
    view.type = array->type;
    view.device = memory_.device();
    const std::int64_t elements = element_count(view.shape, view.type, array->name);
    OwnedArray& own = turn.set_->arrays[k];
    make_room(own, view, elements * static_cast<std::int64_t>(bytes_of(view.type)), turn.capturing_);
    view.data = own.view.data;
    turn.views_.emplace(array, std::move(view));
  }
  return turn;
}

/// The memory that holds what the key stands for; else the one that is missed least.
std::unique_ptr<Orders::Set> Orders::take(const Key& key, bool capturing) {
  const std::lock_guard lock(mutex_);
  const auto use = [&](auto found) {
    std::unique_ptr<Set> set = std::move(*found);
    free_.erase(found);
    return set;
  };
  const auto same = std::find_if(free_.begin(), free_.end(), [&](const auto& one) { return one->key == key; });
  if (!key.empty() && same != free_.end()) return use(same);
  if (capturing && captured_) return std::move(captured_);
  const auto empty = std::find_if(free_.begin(), free_.end(), [](const auto& one) { return one->key.empty(); });
  if (empty != free_.end()) return use(empty);
  const auto kept = std::count_if(free_.begin(), free_.end(), [](const auto& one) { return !one->pinned; });
  if (capturing || static_cast<std::size_t>(kept) >= most_kept)
    for (auto one = free_.end(); one != free_.begin();)
      if (!(*--one)->pinned) return use(one);
  auto made = std::make_unique<Set>();
  made->arrays.resize(kept_.arrays.size());
  return made;
}

void Orders::make_room(OwnedArray& memory, const View& view, std::int64_t bytes, bool capturing) const {
  if (memory.view.data && bytes <= memory.bytes) return;
  if (capturing)
    throw UsageError({.code = ErrorCode::BadArgument,
                      .message = "this run cannot be captured into a CUDA graph: it would have to allocate memory",
                      .program = program_,
                      .hint = "make one run with the same arguments and sizes before the capture"});
  memory = {};
  memory = memory_.make_array(view.type, view.shape);
}

void Orders::give(Turn& turn) noexcept {
  const std::lock_guard lock(mutex_);
  Set& set = *turn.set_;
  if (!turn.succeeded_ && turn.stale_) set.key.clear();
  else if (!turn.capturing_) set.key = turn.key_;
  if (turn.capturing_ && turn.stale_) {
    captured_ = std::move(turn.set_);
    return;
  }
  set.pinned |= turn.capturing_;
  free_.push_front(std::move(turn.set_));
}

}  // namespace loopgrad::backend
