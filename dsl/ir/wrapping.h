// Integer arithmetic that may leave its type, and go on at the other end of it, for indices as programs have them.
#pragma once

#include "dsl/ir/expr.h"

namespace loopgrad::ir {

/// Whether a sum or product of integers may wrap around although iterators, sizes and indices from data are moderate:
/// those of hashes and random numbers do, which multiply by large numbers. What is known of the operands, as that they
/// are not negative, does not hold for the result then.
bool may_wrap(const Expr& e);

}  // namespace loopgrad::ir
