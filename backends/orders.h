// What a compiled program has computed from index arrays alone, kept from run to run: see
// transforms/sums/keep_orders.h.
#pragma once

#include "backends/interface/memory.h"
#include "backends/runtime/binding.h"
#include "transforms/pass/record.h"

#include <list>
#include <memory>
#include <mutex>
#include <optional>

namespace loopgrad::backend {

/// The memory of the kept arrays of one program. Runs on several threads at once have memory each.
class Orders {
  using Key =
      std::vector<std::int64_t>;  // sizes, and what identifies the deciding arrays; empty: not all are versioned
  struct Set {
    Key key;                          // of what is in it
    std::vector<std::int64_t> sizes;  // of the run that has left something in it; empty: none has
    std::vector<OwnedArray> arrays;
    bool pinned = false;  // a graph of the caller's reads it: what is in it stays
  };

  using Sets = std::list<std::unique_ptr<Set>>;

 public:
  Orders(transforms::KeptOrders kept, const Memory& memory, std::string program);
  /// The same arrays in memory of their own, with nothing in it yet.
  std::shared_ptr<Orders> independent() const { return std::make_shared<Orders>(kept_, memory_, program_); }

  /// The memory of one run.
  class Turn {
   public:
    Turn(Turn&&) = default;
    Turn(const Turn&) = delete;
    ~Turn();
    /// What the program is told: see transforms/sums/keep_orders.h.
    int stale() const { return stale_; }
    bool holds(const ir::Array& array) const { return views_.count(array) > 0; }
    View view_of(const ir::Array& array) const { return views_.at(array); }
    /// The run has been started, or is over: later ones on the same arrays find its work done.
    void succeed() { succeeded_ = true; }

   private:
    friend class Orders;
    explicit Turn(Orders& orders) : orders_(&orders) {}
    bool knows(const Set& set) const { return !key_.empty() && set.key == key_; }
    Orders* orders_;
    std::unique_ptr<Set> set_;
    Key key_;
    std::vector<std::int64_t> sizes_;
    std::map<ir::Array, View> views_;
    int stale_ = 1;
    bool capturing_ = false, succeeded_ = false;
  };

  /// `bound`: sizes and the arrays of `program` in its order. While `stream` is captured nothing can be allocated:
  /// throws UsageError when no run with these sizes has been made.
  Turn begin(const ir::Program& program, const Binding& bound, void* stream);

  const transforms::KeptOrders& kept() const { return kept_; }

 private:
  Key key_of(const ir::Program& program, const Binding& bound) const;
  static bool fits(const OwnedArray& memory, const View& view);
  template <class Condition>
  static std::unique_ptr<Set> first_of(Sets& sets, const Condition& condition);
  std::unique_ptr<Set> take(const Turn& turn);
  std::unique_ptr<Set> take_for_graph(const Turn& turn, const std::vector<View>& views);
  void give(Turn& turn) noexcept;

  const transforms::KeptOrders kept_;
  const Memory& memory_;
  const std::string program_;
  std::mutex mutex_;
  Sets free_;      // the last used first
  Sets captured_;  // graphs of the caller's write these whenever they run, all with the sizes that it has, if any
};

}  // namespace loopgrad::backend
