// Replaces reads of a scalar local by the value it was given.
//
//   seed = d_y[i]*w[i]                      seed = d_y[i]*w[i]
//   d_x[i + 1] += seed*a[i]         ->      d_x[i + 1] += d_y[i]*w[i]*a[i]
//
// The way back from elements_in_scalars.h, and a part of a plan of sums: a value is computed again where it would have
// to be kept for another nest.
#pragma once

#include "dsl/poly/model.h"

namespace loopgrad::transforms {

/// `sum` (a Reduce of the nest) with cheap scalar locals in its operand, and copies of elements in its indices,
/// replaced by what they hold, so that it can be executed apart from the statement that sets them. A local is replaced
/// when it is set once, unconditionally, in the same iteration, from values that are still the same where `sum` reads
/// it; or when a branch adds one term to that, which makes it a choice. `sum` itself when nothing could be replaced.
/// `model` is the nest's. Functions, and what is summed up in two steps, are computed again, too, where
/// they would be kept for so many terms that no array of the nest is as large, as for pairs of neighbours, and where
/// neither data nor remainders choose the element.
ir::Stmt forward_locals(const poly::Model& model, const ir::Stmt& nest, const ir::Stmt& sum);

}  // namespace loopgrad::transforms
