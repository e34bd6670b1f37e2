// Integers that loops carry, as expressions of iterators.
//
//   local i64 k
//   k = 1
//   for i in 0..n:                    for i in 0..n:
//     a[i] = b[k]             ->        a[i] = b[2*i + 1]
//     k += 2
//   last[k] = 1                       last[2*n + 1] = 1
//
// A loop that carries anything stays in order, an index that is computed may be any element, and values that change
// are saved for the gradient: none of it holds for what follows from the iterator.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::ir {

/// Replaces what is read of local integer scalars, where that is a short expression of sizes, iterators and inputs that
/// nothing changes; scalars that nobody reads then are dropped. Understood are
///
///   - counters, to which every iteration adds the same in all, in nests as well: `k0 + step*(i - lower)`;
///   - values that iterations set anew, of iterators and of the other scalars: those of the iteration before, or what
///   was
///     there before the loop;
///   - and what both are after the loop, also after one without a trip.
///
/// Requires: nothing. Guarantees: the same bits, those of an i32 that leaves its type included. Leaves alone: scalars
/// that no loop carries; from where a branch or a `while` writes one, until it is known again; steps that differ
/// between iterations; loops with bounds that the program computes; scalars that regions with a gradient of their own,
/// a stack or extents mention.
Program with_closed_counters(const Program& program);

}  // namespace loopgrad::ir
