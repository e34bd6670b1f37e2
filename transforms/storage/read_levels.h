// An array that each step of a loop replaces by what it has just put on the tape is read from the tape.
//
//   for i, j: u[i, j] = u0[i, j]                       for t in 0..T: border of u_tape[t, ..] = border of u0
//   for t in 0..T:                                     for t in 0..T:
//     for i in 1..n - 1, j in 1..m - 1:                  for i in 1..n - 1, j in 1..m - 1:
//       u_tape[t, i, j] = f(u[i, j], u[i, j + 1])  ->      u_tape[t, i, j] = f(now[i, j], now[i, j + 1])
//     for i in 1..n - 1, j in 1..m - 1:                for i, j: u[i, j] = select(0 < T, u_tape[T - 1, i, j], u0[i, j])
//       u[i, j] = u_tape[t, i, j]
//                                                      where now[..] is select(t > 0, u_tape[t - 1, ..], u0[..])
//
// A program that updates an array in place over many steps stores every state of it twice when a gradient needs them:
// in the array and on the tape. What is left is what one writes by hand, from one level to the next.
//
// Requires: merge_copies has let new states go to the tape at once, where they are computed beside the array.
// Guarantees: the same operations on all elements of all arrays, hence the same bits; elements of the tape that nothing
// wrote become copies of the array's border. Where the array is not a copy of another one before the loop, as of u0
// above, it keeps its first state itself, and gets back the last one where there is a step.
//
// Applies to a loop outside of all others, when
//   - one nest of each step stores to the tape, at the step plus a constant and else at the nest's own iterators; after
//     it, a nest of the same range copies that level to the array; nothing else stores to either in the loop. Or one
//     nest does both, and uses no other element of the array than the iteration's own:
//       u[i, j] += f(..); u_tape[t, i, j] = u[i, j]     ->     u_tape[t, i, j] = now[i, j] + f(..)
//   - the array has the shape of a level, the nests leave out no more than `widest_border` elements at the ends of a
//     dimension, and an earlier nest, or the caller, has set all of the array,
//   - a step reads each element a few times, not in loops of sums: a choice in these costs more than the store saved.
// A pass of its own: which level an element of the array is depends on time, so that it is a value to choose (select)
// and not a place to move to, and levels have to be completed by the border.
// Leaves alone: arrays that may alias, and those that while loops, stacks or products of matrices use.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program read_levels(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
