// Local arrays keep only as many places of a dimension as are alive at once.
//
//   local v[T + 1, n]                                      local v[2, n]
//   for i: v[T, i] = seed[i]                               for i: v[T%2, i] = seed[i]
//   for t in 0..T reversed:                           ->   for t in 0..T reversed:
//     for i: v[t, i] = f(v[t + 1, ..])                       for i: v[t%2, i] = f(v[(t + 1)%2, ..])
//   for i: y[i] = v[0, i]                                  for i: y[i] = v[0, i]
//
// Arrays that keep every state, and adjoints of such, have one level for each, of which a step reads and writes a few;
// what is left stays in the cache, and takes less memory. What a statement stores may take the place of what it has
// just read: v[t + 1, i] = 2*v[t, i] - v[t - 1, i] + .. needs two levels instead of three (not for a GPU, where three
// are faster). Also known as storage folding; see Lefebvre and Feautrier, "Automatic storage management for parallel
// programs" (1998).
//
// Where fills of all levels with a constant are all that is in the way, they are done in the step that first uses the
// level: see sink_fills.h.
//
// Requires: parallel loops are marked (what they may work on at once stays apart). Guarantees: the same results and
// bits. Applies to a dimension that a loop goes through in order, when lifetimes.h finds a number of places, smaller
// than the extent where that is a number. Leaves alone: arrays with facts, of stacks or products of matrices. Notes
// each array in the report.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program fold_arrays(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
