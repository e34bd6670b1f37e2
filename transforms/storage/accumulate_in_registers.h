// Sums into one array element over a sequential loop are kept in a scalar.
//
//     for j in 0..k:                      if 0 < k:
//       y[i] += x[i + j]*w[j]      ->       y_sum = y[i]
//                                           for j in 0..k:
//                                             y_sum += x[i + j]*w[j]
//                                           y[i] = y_sum
//
// C++ compilers cannot do this by themselves in OpenMP regions, where they do not know that y, x and w differ.
// Requires: nothing. Guarantees: every element gets the same operations in the same order. Where another statement of
// the block stores to the element, the scalar is there from the first use to the last, and there is no condition; else
// the sum must happen on every trip of the loop, and of loops directly inside it, so that the element is known to
// exist. What a scalar takes no place of: elements_in_scalars.h; and what parallel loops use.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program accumulate_in_registers(const ir::Program& program);

}  // namespace loopgrad::transforms
