// Sums into one array element over a sequential loop are kept in a scalar.
//
//     for j in 0..k:                      if 0 < k:
//       y[i] += x[i + j]*w[j]      ->       y_sum = y[i]
//                                           for j in 0..k:
//                                             y_sum += x[i + j]*w[j]
//                                           y[i] = y_sum
//
// C++ compilers cannot do this by themselves in OpenMP regions, where they do not know that y, x and w differ.
// Requires: nothing. Guarantees: every element gets the same operations in the same order. The condition is left out
// where a statement before the loop writes the element; else the sum must happen on every trip, so that the element is
// known to exist. Where that statement is an assignment right before the loop, the scalar starts with its value and the
// assignment goes. Leaves alone: sums whose array the loop also reads, atomic sums, arrays that may alias others, f16
// and bf16 (rounded at each step in memory).
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program accumulate_in_registers(const ir::Program& program);

}  // namespace loopgrad::transforms
