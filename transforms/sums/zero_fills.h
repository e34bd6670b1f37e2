// Arrays are not filled with zeros that are assigned again before anyone reads them.
//
//   for i in 0..n: d_x[i] = 0                   if n >= 1: d_x[n - 1] = 0
//   for i in 0..n - 1: d_x[i] = d_y[i]*w    ->  for i in 0..n - 1: d_x[i] = d_y[i]*w
//
// Requires: run after assign_first_sums, which makes such assignments and notes their arrays in the context.
// Guarantees: the same results. A constant assignment goes when each of its elements is surely assigned again and not
// read until then (in the same iteration of the loops that it shares with the later assignment); when that holds for a
// part of them, its loops shrink to the rest if that falls into few pieces, and unless only rows get a few elements
// shorter: whole rows are stored faster. Past isl's budget, the statement stays as
// it is. Cost: for each constant assignment to the arrays concerned, quadratic in the statements that access its array.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program shrink_zero_fills(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
