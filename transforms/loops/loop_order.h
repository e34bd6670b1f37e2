// In which order to enumerate the instances of a sum: linear algebra on iterators and a small model of memory access.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// An order for the instances of one sum: new loops, outermost first, as expressions in its iterators. The outermost
/// ones separate elements of the target, so they carry no sum; the innermost ones are summed over.
struct LoopOrder {
  std::vector<ir::Expr> time;
  std::vector<std::string> names;  // for the new iterators; empty where there is no better name than isl's
  int separating = 0;              // how many different loops separate elements
  int summed = 0;                  // how many loops are summed over
  int separating_before = 0;       // how many of the outermost loops around the sum separate elements as they are
  int cost = 0;                    // memory access of the innermost loop; lower is better
};

/// The best order for `sum` inside loops with `iterators` (outermost first), given the affine expressions `separators`
/// (indices of its target that vary, at least one; the first becomes the outermost loop). Of the loops summed over, the
/// innermost is the one that accesses memory best. When there is a single separator, and it would do better than any of
/// them, it is split where threads sum several `elements_at_once` (see Machine): blocks of as many elements outermost,
/// elements of a block innermost.
LoopOrder best_order(const ir::Stmt& sum, const std::vector<ir::Symbol>& iterators,
                     const std::vector<ir::Expr>& separators, std::int64_t elements_at_once);

/// Cost of the accesses of `s` when `direction` is added to the iterators: 0 for what stays, 1 for the next element in
/// memory, `strided_cost` for anything else.
int access_cost(const ir::Stmt& s, const std::vector<ir::Symbol>& iterators, const std::vector<double>& direction);
/// Of the access to one element.
int access_cost(const std::vector<ir::Expr>& indices, const std::vector<ir::Symbol>& iterators,
                const std::vector<double>& direction);
inline constexpr int strided_cost = 8;

}  // namespace loopgrad::transforms
