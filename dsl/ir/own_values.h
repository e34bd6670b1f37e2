// Scalars from outside of a loop of which each iteration has a value of its own.
//
//   for i in 0..n:                    for i in 0..n:
//     a[i] = b[i]*x           ->        a[i] = b[i]*select(i == 0, x[], b[i - 1])
//     x = b[i]                        if 0 < n: x = b[n - 1]
//
//   for i in 0..n:                    for i in 0..n:
//     t = 0                             local f32 t
//     for j in 0..m:                    t = 0
//       t += b[i, j]          ->        for j in 0..m: t += b[i, j]
//     a[i] = t*t                        a[i] = t*t
//   out = t                             if i == n - 1: t (the outer one) = t
//                                     out = t
//
// The loop need not stay in order for them, and no iteration saves what it has from the one before.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::ir {

/// Two kinds of local scalars, in each loop, innermost first:
///
///   - those that an iteration sets once, whatever data are, to a short value that reads nothing which the loop writes:
///     what an iteration finds is the value of the one before, or what was there before the loop. Several in a row
///     (`y = x; x = b[i]`) follow from each other. After the loop they are set to the value of the last iteration;
///   - those that an iteration sets before it does anything else with them, and that are read after the loop: the last
///     iteration stores what it leaves.
///
/// Only in loops that assign nothing else to the same element in all iterations: others stay in order anyway.
/// Requires: nothing. Guarantees: the same bits. Leaves alone: scalars that the user wants saved or computed again;
/// loops with regions that have a gradient of their own, or with a stack; scalars that nobody reads after the loop
/// (narrow_scopes.h), `while` loops.
Program with_own_values(const Program& program);

}  // namespace loopgrad::ir
