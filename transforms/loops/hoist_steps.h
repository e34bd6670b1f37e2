// Takes loops over steps out of a short loop around them, whose iterations then do each step together.
//
//   for s in 0..3:                          local f32 u_all[3, n]
//     local f32 u[n]                        for s in 0..3: for i in 0..n: u_all[s, i] = 0
//     for i in 0..n: u[i] = 0               for t in 0..steps:
//     for t in 0..steps:              ->      for s in 0..3: for i in 1..n - 1: u_all[s, i] = f(u_all[s, i - 1], ..)
//       for i in 1..n - 1: u[i] = f(..)       for s in 0..3: y[s, t] = u_all[s, 7]
//       y[s, t] = u[7]
//
// A batch of a few problems, each with many steps of large loops, is one block of a GPU for each problem as it is
// written; this way each step fills the machine, and passes on sums see the loops of a step as they see those of one
// problem alone. Fission and interchange in one, see Kennedy and Allen, Optimizing Compilers for Modern Architectures
// (2001).
//
// Requires: a machine that launches kernels; loops as they are written. Guarantees: every element gets the same
// operations in the same order, but for sums that iterations of the outer loop share. Applies to a loop of the host's
// part of the program whose iterations share nothing else, are too few to fill the machine by a block each, and whose
// steps carry more than sums and are worth launches, by estimate. Leaves alone: bounds and extents that are data or
// differ from iteration to iteration of the outer loop, steps under branches, and steps of a `while`.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program hoist_steps(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
