// Local arrays keep only the time levels that a step still uses.
//
//   local v[T + 1, n]                                      local v[2, n]
//   for i: v[T, i] = seed[i]                               for i: v[T%2, i] = seed[i]
//   for t in 0..T reversed:                           ->   for t in 0..T reversed:
//     for i: v[t, i] = f(v[t + 1, ..])                       for i: v[t%2, i] = f(v[(t + 1)%2, ..])
//   for i: y[i] = v[0, i]                                  for i: y[i] = v[0, i]
//
// Where each element of the level that a step writes first is computed from the element of the level that no later step
// reads, as in v[t + 1, i] = 2*v[t, i] - v[t - 1, i] + .., it takes the place of that one: two levels instead of three
// (not for a GPU, where three are faster).
//
// Adjoints of arrays that keep every state have one level for each, of which a step reads and writes a few; what is
// left stays in the cache, and takes less memory. Levels that are filled with a constant beforehand are filled in the
// step that first uses them. Also known as storage folding; see Lefebvre and Feautrier, "Automatic storage management
// for parallel programs" (1998).
//
// Requires: parallel loops are marked (a loop whose levels may be worked on at once keeps them). Guarantees: the same
// results and bits. Applies to a dimension whose index is t + constant wherever loop t uses the array, t not being
// parallel and in no other loop inside the array's scope, when all other uses are of levels that its first or last
// step uses too, or one step more would. Notes each array as a remark in the report.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program contract_levels(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
