// The iterations of a scatter in the order of their targets, as arrays that code of the program computes.
#pragma once

#include "transforms/loops/loop_builder.h"
#include "transforms/sums/counting_sort.h"
#include "transforms/sums/scatters.h"

#include <functional>

namespace loopgrad::transforms {

/// With loads of one index, of numbers that are kept with 32 bits or 64.
class OrderBuilder : protected LoopBuilder {
 protected:
  using LoopBuilder::LoopBuilder;
  ir::Expr at(const ir::Array& array, const ir::Expr& index) const {
    return ir::cast(ScalarType::I64, get(array, {index}));
  }
  ir::Stmt put(const ir::Array& array, const ir::Expr& index, const ir::Expr& value) const {
    return set(array, {index}, ir::cast(array->type, value));
  }
};

/// Sorts, or finds, the iterations of a scatter by target.
class SortedIterations : OrderBuilder {
 public:
  /// `in_order`: the targets are known to ascend. `when`: a bool of sizes, without which nothing may be asked for.
  SortedIterations(const Scatter& scatter, bool in_order, const SortShares& shares, const ir::Expr& when = {});

  /// What computes `arrays()`.
  ir::Stmt code() const;
  /// Whether it can be done: numbers of iterations and targets have 31 bits.
  ir::Expr fits() const;
  std::vector<ir::Array> arrays() const;
  /// How many positions there are: instances that do not exist have none. At most `count`, which sizes tell.
  ir::Expr positions() const;
  /// Whether another scatter has the same iterations, or some of them, and targets that differ from these by one number
  /// for all, as elements side by side have: that number, made of sizes. The order of its loops does not matter.
  std::optional<ir::Expr> shift_to(const Scatter& other) const;
  /// body(the values of the iterators of the loops over instances, at a position). Where they are computed from the
  /// number of the instance, it has them in locals: the expressions grow with the loops, and are used in every index.
  using Body = std::function<ir::Stmt(const std::vector<ir::Expr>&)>;
  ir::Stmt with_instance_at(const ir::Expr& position, const Body& body) const;

 private:
  bool has_far_bounds() const;
  ir::Expr room() const;
  bool has_instances_of(const Scatter& other, const ir::Substitution& names) const;
  static ir::Expr has_trip(const ScatterFactor& factor, const ir::Substitution& known);
  ir::Stmt with_instance(const ir::Expr& number_of_instance, bool exists, const Body& body) const;
  ir::Array iterator_array(const ir::For& loop, ScalarType type) const;
  static ir::Expr entries_of(const ScatterFactor& factor, std::size_t level);
  static ir::Expr end_of_rows(const ScatterFactor& factor, std::size_t level);
  ir::Stmt rows_of(const ScatterFactor& factor, std::size_t level, const ir::Array& row,
                   const ir::Stmt& and_then) const;
  ir::Stmt words() const;
  ir::Stmt word_of(const ir::Expr& place) const;
  ir::Stmt word_of(const ir::Expr& place, const std::vector<ir::Expr>& values) const;
  ir::Stmt in_order(const ir::Expr& side) const;
  ir::Stmt iterators_of(const ir::Expr& item, const ir::Expr& p) const;

  const Scatter s_;
  const bool is_in_order_;
  const ir::Expr when_;

 public:
  const ir::Expr targets, count;
  ir::Array key, begin, end;         // sorted targets; where the positions of each target begin and end
  std::vector<ir::Array> iterators;  // values of the sequential loops' iterators, sorted

 private:
  const SortShares shares_;
  bool is_numbered_ = false;
  ir::Array instance_;          // their numbers, sorted; in place of iterators where these follow from them
  ir::Array words_;             // of each instance, its target and its number
  ir::Array left_, positions_;  // where some do not exist: how many words are left on each side, and in the end
  std::vector<std::vector<ir::Array>> rows_;  // of each entry of a CSR structure, by factor and structure
};

}  // namespace loopgrad::transforms
