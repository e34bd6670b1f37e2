// Whether a sum in a nest of loops is a product of matrices, by the structure of its indices.
#pragma once

#include "dsl/ir/program.h"

#include <string>

namespace loopgrad::transforms {

/// What a sum is as a contraction. `outside` are the loops of the nest that stay around it, outermost first.
struct ContractionMatch {
  ir::Stmt contraction;  // null: it is none, for `reason`
  std::vector<const ir::For*> outside;
  ir::Expr zero_when;  // the product is zero where this holds (a condition of symbols around the contraction); or null
  std::string reason;  // empty: it is nothing like one
};

/// `sum` is all that the perfectly nested `loops` (outermost first) execute.
///
/// It is a contraction when it adds a product of two elements, of one type of f32 and f64, of arrays that share no
/// memory with the target, and three of the loops are the rows, columns and depth: each in two of the three arrays, as
/// an index of its own with coefficient 1, such that in each array one of them is the last index. More loops of one of
/// these kinds join it where they run through the same memory without gaps; one more loop over elements of the target
/// becomes the batch; the others stay outside. Bounds may depend on what is outside only. An operand may be
/// select(condition, 0, x) with a condition of symbols outside.
ContractionMatch match_contraction(const ir::Program& program, const std::vector<const ir::For*>& loops,
                                   const ir::Reduce& sum);

/// The condition under which `fill` (a nest that sets elements to zero) sets just the elements that `n` adds to: then
/// the contraction with the fill as the first of its loops, that overwrites; else null.
ir::Stmt absorb_fill(const ir::Contraction& n, const ir::Stmt& fill);

/// The array that a nest of loops sets to zero, and nothing else; null when it is no such nest.
ir::Array filled_array(const ir::Stmt& s);

}  // namespace loopgrad::transforms
