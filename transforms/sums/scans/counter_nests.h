// A counter that all loops of a nest carry, as one loop over the iterations of the nest.
//
//   for i in 0..n:                      for q in 0..n*m:
//     for j in 0..m:                      k_at[q] = select(q == 0, k, k_at[q - 1]) + e(q//m, q % m)
//       k += e(i, j)              ->    for i in 0..n:
//       y[i, j] = k                       for j in 0..m:
//                                           y[i, j] = k_at[i*m + j]
//
// isolate_recurrences.h takes the counter out of the innermost loop; what is left alone then is a nest, and only a loop
// is scanned.
#pragma once

#include "transforms/sums/scans/carried_value.h"

namespace loopgrad::transforms {

class CounterNest {
 public:
  /// Of the loops of a perfect nest, outermost first, whose bounds depend neither on data nor on each other.
  /// `start`: what the counter holds before it.
  CounterNest(const ir::Program& program, std::vector<const ir::For*> loops, const ir::Array& counter, ir::Expr start);

  static bool is_box(const std::vector<const ir::For*>& loops);

  /// An element for each iteration, by its number in each loop.
  const KeptAt& kept() const { return kept_; }
  /// `parts`, in which `update` sets that element in a nest of its own: with one loop for it, and the elements in a
  /// row.
  ir::Stmt flattened(const ir::Stmt& parts, const ir::Stmt& update) const;
  /// The array in a row, in what `flattened` returns.
  const ir::Array& flat() const { return flat_; }
  /// What the counter holds after the nest, where that has iterations.
  ir::Expr after() const;
  /// Whether it has.
  ir::Expr runs() const;

 private:
  ir::Expr number_of(const std::vector<ir::Expr>& digits) const;
  ir::Stmt one_loop(const ir::Expr& value, const SourceLocation& where) const;

  std::vector<const ir::For*> loops_;
  std::vector<ir::Expr> extents_;
  ir::Expr start_, count_;
  KeptAt kept_;
  ir::Array flat_;
};

}  // namespace loopgrad::transforms
