// Declarations of local arrays moved into the loops whose iterations do not share them.
//
//   local f64 work[n]                          for c in 0..cells:
//   for c in 0..cells:                           local f64 work[n]
//     for k in 0..n: work[k] = f(x[c, k])   ->   for k in 0..n: work[k] = f(x[c, k])
//     y[c] = work[0]*work[n - 1]                 y[c] = work[0]*work[n - 1]
//
// Programs that come from C or Fortran have their workspaces outside of all loops. There each iteration overwrites what
// the one before has left, so that the loop would have to stay in order, and the gradient would save each element
// wherever it is read.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::ir {

/// Moves each declaration into the innermost loop that has all accesses to its array, of which no iteration may read an
/// element that it has not set itself, as far as the text tells (set_elements.h). What is computed does not change.
/// Arrays whose extent is read from data stay, and so do those of which iterations have elements of their own.
Program with_narrow_scopes(const Program& program);

}  // namespace loopgrad::ir
