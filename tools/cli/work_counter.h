// What statements of a program cost, at sizes, without going through iterations (see loop_sums.h).
#pragma once

#include "tools/cli/buffers.h"
#include "tools/cli/loop_sums.h"

#include "backends/runtime/binding.h"
#include "dsl/ir/program.h"

#include <optional>
#include <utility>

namespace loopgrad::cli {

/// What statements do: `loads` and `stores` count elements, by the ids of arrays.
struct Cost {
  double flops = 0;       // f32 operations: one for each arithmetic operation, function and sum; f64 counts as two
  double operations = 0;  // as plans count them: functions are ten, powers twenty
  std::map<std::int64_t, double> loads, stores;

  void add(const Cost& other, double times);
  bool differs_from(const Cost& other) const;
  double accesses() const;
};

/// Not the same but for rounding.
bool differ(double a, double b);
bool differ(const std::map<std::int64_t, double>& a, const std::map<std::int64_t, double>& b);

class WorkCounter {
 public:
  /// What counts where data decide: of two branches the cheaper one, no trip of loops that nothing is known about; or
  /// the mean of branches and as many trips as facts say on average, or the program at most.
  enum class Unknown { Cheapest, Likely };

  /// `inputs`: contents of input arrays that bounds may read; none: facts tell what they are. All must outlive this.
  WorkCounter(const ir::Program& program, const Sizes& sizes, const Arrays& inputs, Unknown unknown);

  Cost cost(const ir::Stmt& s);
  /// False when something so far was not decided by sizes and inputs, or was sampled.
  bool exact() const { return exact_; }

  /// As far as sizes, iterators and inputs decide it.
  std::optional<std::int64_t> value_of(const ir::Expr& e) const;
  /// The same, else what facts say on average.
  double estimate_of(const ir::Expr& e) const;
  double trips_of(const ir::For& loop);
  double trips_of(const ir::While& loop) const;
  double bytes_of(const ir::Array& array) const;

  /// Sums up what `body` returns for each iteration. Value: as for LoopSum.
  template <class Value, class F>
  Value over(const ir::For& loop, const F& body) {
    const auto lower = value_of(loop.lower), upper = value_of(loop.upper);
    Value sum;
    if (!lower || !upper || is_row(loop)) {
      sum.add(body(), trips_of(loop));
      return sum;
    }
    if (*upper <= *lower) return sum;
    if (!varies(loop)) {
      sum.add(body(), static_cast<double>(*upper - *lower));
      return sum;
    }
    const auto at = [&](std::int64_t i) {
      values_[loop.iterator] = i;
      --evaluations_left_;
      return body();
    };
    const bool enough = evaluations_left_ > 0;
    LoopSum<Value, decltype(at)> sums(at, enough ? 48 : 0, enough ? 64 : 3);
    sum = sums.of(*lower, *upper, ends_of_pieces(loop, *lower, *upper));
    exact_ &= sums.is_exact();
    values_.erase(loop.iterator);
    return sum;
  }

  /// `f` with the iterator in the middle of its range, where that is known.
  template <class F>
  auto in_the_middle(const ir::For& loop, const F& f) {
    const auto lower = value_of(loop.lower), upper = value_of(loop.upper);
    if (lower && upper) values_[loop.iterator] = *lower + std::max<std::int64_t>(0, *upper - *lower) / 2;
    const auto result = f();
    values_.erase(loop.iterator);
    return result;
  }

  /// What counts of the two sides of a branch: the shares of `then` and `else`.
  std::optional<std::pair<double, double>> shares_of(const ir::If& branch);

 private:
  using Seen = std::set<const ir::ExprNode*>;

  Cost cost_of(const ir::Expr& e, Seen& seen);
  Cost cost_of_store(const ir::Array& array, const std::vector<ir::Expr>& indices, const ir::Expr& value, double flops);
  Cost cost_of_loop(const ir::For& loop);
  Cost cost_of_select(const ir::Select& select, Seen& seen);
  Cost cost_of_branch(const ir::If& branch);
  const Cost& remembered(const ir::Stmt& s);
  bool varies(const ir::For& loop);
  bool is_decided(const ir::Expr& e) const;
  std::set<std::int64_t> ends_of_pieces(const ir::For& loop, std::int64_t lower, std::int64_t upper);
  const std::vector<std::pair<ir::Expr, ir::Expr>>& compared_in(const ir::For& loop);
  std::optional<std::int64_t> element(const ir::Load& load) const;
  double element_on_average(const ir::Load& load) const;
  bool is_row(const ir::For& loop) const { return row_length(loop).has_value(); }
  std::optional<double> row_length(const ir::For& loop) const;

  const ir::Program& program_;
  const Arrays& inputs_;
  const Unknown unknown_;
  bool exact_ = true;
  int evaluations_left_ = 20000;  // of bodies of loops; then samples have to do
  backend::SizeValues values_;    // of sizes, and of iterators that have one now
  std::set<std::int64_t> readable_;
  std::map<const ir::StmtNode*, Cost> leaves_;
  std::map<const ir::For*, bool> varies_;
  std::map<const ir::For*, std::vector<std::pair<ir::Expr, ir::Expr>>> compared_;
};

}  // namespace loopgrad::cli
