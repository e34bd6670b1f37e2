// In which order to enumerate the instances of a sum: linear algebra on iterators and a small model of memory access.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// An order for the instances of one sum: new loops, outermost first, as expressions in its iterators. The outermost
/// one separates elements of the target, so it carries no sum.
struct LoopOrder {
  std::vector<ir::Expr> time;
  std::vector<std::string> names;  // for the new iterators; empty where there is no better name than isl's
  bool blocked = false;            // the outermost loop runs over blocks of the only index that separates elements
  int cost = 0;                    // memory access of the innermost loop; lower is better
};

/// Rows of the outermost dimension that are treated together, so that what they share is read once for all.
inline constexpr std::int64_t rows_per_block = 4;
/// Elements per block where a contiguous dimension has to be split among threads: two cache lines of f32.
inline constexpr std::int64_t elements_per_block = 32;

/// The best order for `sum` inside loops with `iterators` (outermost first), given the affine expressions `separators`
/// (indices of its target that vary, at least one; the first is preferred for the outermost loop). Tries every choice
/// of the innermost loop.
LoopOrder best_order(const ir::Stmt& sum, const std::vector<ir::Symbol>& iterators,
                     const std::vector<ir::Expr>& separators);

/// Cost of the accesses of `s` when `direction` is added to the iterators: 0 for what stays, 1 for the next element in
/// memory, `strided_cost` for anything else.
int access_cost(const ir::Stmt& s, const std::vector<ir::Symbol>& iterators, const std::vector<double>& direction);
inline constexpr int strided_cost = 8;

}  // namespace loopgrad::transforms
