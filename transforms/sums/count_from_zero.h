// Loops that start where data say, and whose iterators are elements that sums add to, count from 0.
//
//   for s in 0..n:                                      for s in 0..n:
//     for t in start[s]..start[s] + width[s]:   ->        for t in 0..width[s] (at most 10):
//       d_x[t] += d_y[s]                                    d_x[start[s] + t] += d_y[s]
//
// The element is then one that data choose (scatters.h), and the sum can be sorted by it.
//
// Requires: nothing. Guarantees: the same results. Leaves alone: rows of CSR structures that loops go through, whose
// entries are each in one row (not those that data choose), and loops of which no bound of their trips is known.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program count_from_zero(const ir::Program& program);

}  // namespace loopgrad::transforms
