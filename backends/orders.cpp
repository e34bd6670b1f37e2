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
  std::vector<View> views;
  for (const ir::Array& array : kept_.arrays) {
    View& view = views.emplace_back();
    view.shape = shape_of(array, bound.sizes);
    view.type = array->type;
    view.device = memory_.device();
  }
  turn.set_ = turn.capturing_ ? take_for_graph(turn.key_, views) : take(turn.key_);
  turn.stale_ = turn.key_.empty() || turn.set_->key != turn.key_;
  if (turn.stale_) turn.set_->key.clear();
  for (std::size_t k = 0; k < views.size(); ++k) {
    OwnedArray& own = turn.set_->arrays[k];
    if (!fits(own, views[k])) {
      own = {};
      own = memory_.make_array(views[k].type, views[k].shape);
    }
    views[k].data = own.view.data;
    turn.views_.emplace(kept_.arrays[k], std::move(views[k]));
  }
  return turn;
}

bool Orders::fits(const OwnedArray& memory, const View& view) {
  const std::int64_t elements = element_count(view.shape, view.type, "");
  return memory.view.data && elements * static_cast<std::int64_t>(bytes_of(view.type)) <= memory.bytes;
}

std::unique_ptr<Orders::Set> Orders::taken(Sets& sets, Sets::iterator found) {
  std::unique_ptr<Set> set = std::move(*found);
  sets.erase(found);
  return set;
}

Orders::Sets::iterator Orders::with_key(const Key& key) {
  return std::find_if(free_.begin(), free_.end(), [&](const auto& one) { return one->key == key; });
}

/// The memory that holds what the key stands for; else the one that is missed least.
std::unique_ptr<Orders::Set> Orders::take(const Key& key) {
  const std::lock_guard lock(mutex_);
  for (const Key& wanted : {key, Key()})
    if (const auto found = with_key(wanted); found != free_.end()) return taken(free_, found);
  const auto kept = std::count_if(free_.begin(), free_.end(), [](const auto& one) { return !one->pinned; });
  if (static_cast<std::size_t>(kept) >= most_kept)
    for (auto one = free_.end(); one != free_.begin();)
      if (!(*--one)->pinned) return taken(free_, one);
  auto made = std::make_unique<Set>();
  made->arrays.resize(kept_.arrays.size());
  return made;
}

/// Nothing can be allocated: the memory that holds what the key stands for, that of an earlier graph, or of a run.
std::unique_ptr<Orders::Set> Orders::take_for_graph(const Key& key, const std::vector<View>& views) {
  const std::lock_guard lock(mutex_);
  if (const auto found = with_key(key); !key.empty() && found != free_.end()) return taken(free_, found);
  const auto has_room = [&](const auto& one) {
    return !one->pinned && std::equal(views.begin(), views.end(), one->arrays.begin(),
                                      [](const View& view, const OwnedArray& own) { return fits(own, view); });
  };
  for (Sets* sets : {&captured_, &free_})
    if (const auto found = std::find_if(sets->begin(), sets->end(), has_room); found != sets->end())
      return taken(*sets, found);
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = "this run cannot be captured into a CUDA graph: it would have to allocate memory",
                    .program = program_,
                    .hint = "make one run with the same arguments and sizes before the capture"});
}

void Orders::give(Turn& turn) noexcept {
  const std::lock_guard lock(mutex_);
  Set& set = *turn.set_;
  if (!turn.succeeded_ && turn.stale_) set.key.clear();
  else if (!turn.capturing_) set.key = turn.key_;
  if (turn.capturing_ && turn.stale_) {
    captured_.push_front(std::move(turn.set_));
    return;
  }
  set.pinned |= turn.capturing_;
  free_.push_front(std::move(turn.set_));
}

}  // namespace loopgrad::backend
