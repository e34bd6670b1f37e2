// The last level of a recurrence is stored where it is copied to, when nobody else wants it.
//
//   for t in 0..T:                                     for t in 0..T - 1:
//     for i: v[t + 1, i] = f(v[t, i])                    for i: v[t + 1, i] = f(v[t, i])
//   for i: y[i] = v[T, i]                       ->     if 0 < T:  for i: y[i] = f(v[T - 1, i])
//                                                      if T <= 0: for i: y[i] = v[T, i]
//
// Tapes keep every state that a gradient needs, and the last one is seldom among them: it is a result, and a copy of it
// costs as much as half a step. Also known as peeling.
//
// Requires: the program states how far its tape is read later (FactKind::ReadUpTo). Guarantees: the same operations on
// every element in the same order, hence the same bits, in all arrays but the last level of the tape. Applies to a tape
// whose first index is the step plus a constant wherever a loop outside of all others stores to it, when
//   - a nest after the loop copies the level that the last step writes, or a box of it, to an array that nothing used
//     before; nothing else after the loop, and no step, reads the level that a step writes,
//   - each store reaches elements of the box only, or none of them; outside of the loop, these are on levels before the
//     first that a step writes, or in a nest over the same steps, which then ends one step earlier, too.
// A pass of its own: it is the loop that changes (its last step is peeled), not the addresses of an array.
// A nest that only fills what is around the box, on all levels, then ends before the last one.
// Leaves alone: steps of more than `most_statements` statements, since they are there twice afterwards.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program store_last_level(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
