// Moves the loop over which elements of a row are summed inside the parallel loop over that row.
//
//   for o in 0..k:                                 parallel for d in 0..m:
//     if o < s:                                      for o in 0..k:
//       parallel for d in 0..m:              ->        if o < s:
//         y[d] += a[o]*x[o, d]                           y[d] += a[o]*x[o, d]
//
// Then accumulate_in_registers and tile_lanes keep a strip of the row in registers, where it was loaded and stored for
// every o. Requires: parallel loops marked. Guarantees: each element gets the same operations in the same order.
// Applies to a sequential loop within a parallel one that holds nothing but (perhaps branches and) a parallel loop
// without loops inside, whose accesses stay in place or move to the neighbour from iteration to iteration. Leaves
// alone: loops in which iterations of the parallel loop could meet in an element in different iterations of the other
// one, bounds of the parallel loop that depend on the other one or on data, sums that move with the sequential loop or
// that it also reads. The bounds of that one may be data, as in rows of sparse matrices: they are not written inside.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program sink_sum_loops(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
