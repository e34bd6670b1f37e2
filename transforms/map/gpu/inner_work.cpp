#include "transforms/map/gpu/inner_work.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/ir/visit.h"
#include "dsl/symbolic/csr_rows.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/map/gpu/register_tile.h"
#include "transforms/map/gpu/shared_sums.h"

#include <algorithm>
#include <functional>

namespace loopgrad::transforms {

using ir::Expr;
using ir::Stmt;

namespace {

/// How many trips loops inside of each other make.
class TripBounds {
 public:
  TripBounds() {
    ranges_.leaf = [this](const Expr& leaf) {
      const auto* var = leaf.as<ir::Var>();
      const bool known = var && std::find(entered_.begin(), entered_.end(), var->symbol) == entered_.end();
      return known ? std::optional(ir::Range{leaf, leaf}) : std::nullopt;
    };
    ranges_.non_negative = [](const ir::Symbol&) { return false; };
  }

  /// At most, in what is known around the first loop; null where the host does not know. Notes the iterator's values.
  Expr enter(const ir::For& loop) {
    if (has_load(loop.lower) || has_load(loop.upper)) {
      entered_.push_back(loop.iterator);
      return {};
    }
    const Expr part = most_trips(loop, entered_);  // of a part of a range: the range itself says little of that
    const auto lower = ir::range_of(loop.lower, ranges_), upper = ir::range_of(loop.upper, ranges_);
    entered_.push_back(loop.iterator);
    if (lower && upper) ranges_.variables[loop.iterator] = {lower->lowest, upper->highest - ir::int_const(1)};
    if (!part && !(lower && upper)) return {};
    const Expr trips = part ? part : upper->highest - lower->lowest;
    return ir::binary(ir::BinaryOp::Max, trips, ir::int_const(0));
  }

  /// Whether it says the same in all iterations of the loops entered.
  bool is_known_around(const Expr& condition) const {
    return std::none_of(entered_.begin(), entered_.end(), [&](const ir::Symbol& i) { return mentions(condition, i); });
  }

 private:
  ir::RangeContext ranges_;
  std::vector<ir::Symbol> entered_;
};

class WorkFinder {
 public:
  explicit WorkFinder(const Analysed& program) : program_(program) {}

  std::optional<InnerWork> of(const ir::For& loop) {
    if (!bounds_.enter(loop)) return std::nullopt;
    add(loop.body, ir::int_const(1));
    return known_ && ir::as_int(meetings_) != 0 ? std::optional(InnerWork{steps_, meetings_, alone_}) : std::nullopt;
  }

 private:
  void add(const Stmt& s, const Expr& times) {
    if (!s || !known_) return;
    const auto* loop = s.as<ir::For>();
    if (!loop) {
      known_ = s.kind() != ir::Kind::While;
      ir::for_each_child(s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { add(child, times); }});
      return;
    }
    const Expr trips = bounds_.enter(*loop);
    known_ = static_cast<bool>(trips);
    if (!known_) return;
    const bool is_parallel = is_parallel_loop(s);
    // Parallel loops directly inside of each other are as one: threads that share the inner do not wait.
    known_ = !is_parallel || steps_around_ > 0;
    if (contains_loop(loop->body)) {
      steps_around_ += is_parallel ? 0 : 1;
      add(loop->body, times * trips);
      steps_around_ -= is_parallel ? 0 : 1;
      return;
    }
    steps_ = steps_ + times * trips;
    if (is_parallel || shared_sums(program_, s)) meetings_ = meetings_ + times;
    else alone_ = alone_ + times * trips;
  }

  const Analysed program_;
  TripBounds bounds_;
  bool known_ = true;
  int steps_around_ = 0;  // loops in order that the statement is in
  Expr steps_ = ir::int_const(0), meetings_ = ir::int_const(0), alone_ = ir::int_const(0);
};

}  // namespace

std::optional<InnerWork> inner_work(const Analysed& program, const ir::For& loop) {
  return WorkFinder(program).of(loop);
}

Expr own_iterations_pay(const ir::For& loop, const InnerWork& work, const Expr& threads) {
  const Expr busy = ir::binary(ir::BinaryOp::Min, loop.upper - loop.lower, threads);
  const Expr cost =
      ir::binary(ir::BinaryOp::Max, ir::binary(ir::BinaryOp::FloorDiv, threads, ir::int_const(128)), ir::int_const(1));
  return ir::binary(ir::BinaryOp::Le, work.steps, busy * (cost * work.meetings + work.alone));
}

namespace {

class ParallelWork {
 public:
  /// `unknown`: what a loop counts as that the host cannot bound.
  explicit ParallelWork(std::function<Expr(const ir::For&)> unknown) : unknown_(std::move(unknown)) {}

  Expr in(const Stmt& s) {
    if (!s || !contains_parallel_loop(s)) return ir::int_const(1);
    if (const auto* loop = s.as<ir::While>())
      return in(ir::for_loop(loop->iterator, ir::int_const(0), loop->max_trips, loop->body));
    if (const auto* loop = s.as<ir::For>()) {
      const Expr known = bounds_.enter(*loop), inside = in(loop->body);
      return is_parallel_loop(s) ? (known ? known : unknown_(*loop)) * inside : inside;
    }
    if (const auto* branch = s.as<ir::If>();
        branch && host_knows(branch->condition) && bounds_.is_known_around(branch->condition)) {
      const Expr taken = in(branch->then_body), otherwise = in(branch->else_body);
      return ir::equal(taken, otherwise) ? taken : ir::select(branch->condition, taken, otherwise);
    }
    Expr most;
    ir::for_each_child(s, ir::overloaded{[](const Expr&) {},
                                         [&](const Stmt& child) {
                                           if (!child || !contains_parallel_loop(child)) return;
                                           const Expr one = in(child);
                                           most = most ? ir::larger(most, one) : one;
                                         }});
    return most;
  }

 private:
  TripBounds bounds_;
  const std::function<Expr(const ir::For&)> unknown_;
};

}  // namespace

Expr iterations_at_once(const ir::Program& program, const Stmt& s) {
  return ParallelWork([&](const ir::For& loop) {
           const Expr average = ir::average_row(program, loop.lower, loop.upper);
           return average ? average : ir::int_const(static_cast<std::int64_t>(assumed_trips));
         })
      .in(s);
}

Expr known_iterations_at_once(const Stmt& s) {
  return ParallelWork([](const ir::For&) { return ir::int_const(1); }).in(s);
}

}  // namespace loopgrad::transforms
