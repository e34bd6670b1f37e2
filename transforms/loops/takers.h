// What takes elements of an array in a loop, and the turns in which it does: see find_takers.h.
#pragma once

#include "transforms/analysis/nest.h"

#include <set>
#include <vector>

namespace loopgrad::transforms {

/// `array[indices] = 0`, and what reads the element before that.
struct Taker {
  ir::Stmt cleared;
  std::vector<ir::Stmt> readers = {};  // leaves
  std::vector<ir::Stmt> loops = {};    // around it, in the loop at hand, outermost first

  const ir::Assign& element() const { return *cleared.as<ir::Assign>(); }
};

/// All that a loop does with an element of an array, or with any that others choose, unless that is more than to take
/// what elements hold and to clear them. What numbers keep apart from the element, as x[0] from x[1], is no matter.
class Takers {
 public:
  explicit Takers(const ir::Assign& element) : element_(element) {}

  bool find(const ir::Stmt& loop) { return look_at(loop.as<ir::For>()->body) && waiting_.empty() && !all.empty(); }

  std::vector<Taker> all;  // in the order of the text

 private:
  bool look_at(const ir::Stmt& s);
  bool look_at_leaf(const ir::Stmt& s);
  void note_between(const ir::Stmt& s);
  bool is_moved(const ir::Assign& assign) const;
  bool may_use(const ir::Expr& e) const;
  bool may_use(const ir::Stmt& s) const;

  const ir::Assign& element_;
  std::vector<ir::Stmt> loops_, waiting_;
  std::set<ir::Array> between_;
};

/// Counts the turns of what takes elements of an array in a loop: the first in the order of the run has the greatest.
class Turns {
 public:
  /// Both must outlive the object.
  Turns(const ir::For& loop, const std::vector<Taker>& takers);

  /// Whether the numbers of trips are the same in all iterations of the loop.
  bool can_be_counted() const;
  /// From 1.
  ir::Expr of(std::size_t which) const;

 private:
  ir::Expr after(const ir::Expr& turn, const ir::For& loop) const;
  bool chooses(const ir::For& loop) const;

  const ir::For& loop_;
  const std::vector<Taker>& takers_;
  std::size_t shared_ = 0;              // loops around all of them
  std::vector<ir::Expr> trips_inside_;  // of the loops around each that are not, together
};

}  // namespace loopgrad::transforms
