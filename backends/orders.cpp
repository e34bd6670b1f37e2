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
  for (const auto& [symbol, size] : bound.sizes) turn.sizes_.push_back(size);
  turn.sizes_.push_back(0);  // so that there are some
  std::vector<View> views;
  for (const ir::Array& array : kept_.arrays) {
    View& view = views.emplace_back();
    view.shape = shape_of(array, bound.sizes);
    view.type = array->type;
    view.device = memory_.device();
  }
  turn.set_ = turn.capturing_ ? take_for_graph(turn, views) : take(turn);
  const bool is_known = turn.knows(*turn.set_);
  turn.stale_ = is_known ? 0 : kept_.compares && turn.set_->sizes == turn.sizes_ ? 2 : 1;
  if (!is_known) turn.set_->key.clear();
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

template <class Condition>
std::unique_ptr<Orders::Set> Orders::first_of(Sets& sets, const Condition& condition) {
  const auto found = std::find_if(sets.begin(), sets.end(), [&](const auto& one) { return condition(*one); });
  if (found == sets.end()) return nullptr;
  std::unique_ptr<Set> set = std::move(*found);
  sets.erase(found);
  return set;
}

/// The memory that holds what the key stands for; else what may turn out to hold it; else the one that is missed least.
std::unique_ptr<Orders::Set> Orders::take(const Turn& turn) {
  const std::lock_guard lock(mutex_);
  const auto is_known = [&](const Set& one) { return turn.knows(one); };
  const auto has_sizes = [&](const Set& one) { return one.key.empty() && one.sizes == turn.sizes_; };
  const auto is_empty = [&](const Set& one) { return one.key.empty() && one.sizes.empty() && !one.pinned; };
  if (auto set = first_of(free_, is_known)) return set;
  if (auto set = first_of(free_, has_sizes)) return set;
  if (auto set = first_of(free_, is_empty)) return set;
  const auto kept = std::count_if(free_.begin(), free_.end(), [](const auto& one) { return !one->pinned; });
  if (static_cast<std::size_t>(kept) >= most_kept)
    for (auto one = free_.end(); one != free_.begin();)
      if (!(*--one)->pinned) return first_of(free_, [&](const Set& other) { return &other == one->get(); });
  auto made = std::make_unique<Set>();
  made->arrays.resize(kept_.arrays.size());
  return made;
}

/// Nothing can be allocated: the memory that holds what the key stands for, that of an earlier graph, or of a run.
std::unique_ptr<Orders::Set> Orders::take_for_graph(const Turn& turn, const std::vector<View>& views) {
  const std::lock_guard lock(mutex_);
  const auto is_known = [&](const Set& one) { return turn.knows(one); };
  const auto has_room = [&](const Set& one) {
    return !one.pinned && std::equal(views.begin(), views.end(), one.arrays.begin(),
                                     [](const View& view, const OwnedArray& own) { return fits(own, view); });
  };
  // Graphs that have one memory in common find in it what the others have left.
  const auto is_shared = [&](const Set& one) {
    return has_room(one) && (one.sizes.empty() || one.sizes == turn.sizes_);
  };
  const auto has_sizes = [&](const Set& one) { return has_room(one) && one.key.empty() && one.sizes == turn.sizes_; };
  if (auto set = first_of(free_, is_known)) return set;
  if (auto set = first_of(captured_, is_shared)) return set;
  if (auto set = first_of(free_, has_sizes)) return set;
  if (auto set = first_of(free_, has_room)) return set;
  throw UsageError({.code = ErrorCode::BadArgument,
                    .message = "this run cannot be captured into a CUDA graph: it would have to allocate memory",
                    .program = program_,
                    .hint = "make one run with the same arguments and sizes before the capture"});
}

void Orders::give(Turn& turn) noexcept {
  const std::lock_guard lock(mutex_);
  Set& set = *turn.set_;
  // What a graph computes anew whenever it runs is not there before, and a run that failed leaves nothing.
  const bool holds = turn.stale_ == 0 || (turn.succeeded_ && !(turn.capturing_ && turn.stale_ == 1));
  set.sizes = holds ? turn.sizes_ : std::vector<std::int64_t>();
  if (!holds) set.key.clear();
  else if (!turn.capturing_) set.key = turn.key_;
  if (turn.capturing_ && turn.stale_ != 0) {
    captured_.push_front(std::move(turn.set_));
    return;
  }
  set.pinned |= turn.capturing_;
  free_.push_front(std::move(turn.set_));
}

}  // namespace loopgrad::backend
