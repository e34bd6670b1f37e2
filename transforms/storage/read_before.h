// Loops that run in order only because they overwrite what earlier iterations read find that in a copy.
//
//   for i in 0..n:                         local f32 a_before[n]
//     a[i] = a[i + 1]*c[i]       ->        for z0 in 0..n: a_before[z0] = a[z0 + 1]
//                                          for i in 0..n: a[i] = a_before[i]*c[i]
//
// Where statements of the loop touch the same elements in other ways still, as those of the gradient of this one do,
// they get loops of their own:
//
//   for i in 0..n reversed:                for z0 in 0..n: d_a_before[z0] = d_a[z0]
//     seed = d_a[i]                        for i in 0..n reversed: d_a[i] = 0
//     d_a[i] = 0                 ->        for i in 0..n reversed: d_a[i + 1] += d_a_before[i]*c[i]
//     d_a[i + 1] += seed*c[i]
//
// Also known as node splitting, see Kuck, Kuhn, Padua, Leasure, Wolfe, Dependence graphs and compiler optimizations
// (1981).
//
// Requires: a machine that launches kernels; loops as they are written. (A CPU's thread does such a loop as fast as its
// memory allows: with copies it takes 1.1 to 1.3 times as long, taken apart up to twice, and two threads are no
// faster.) Guarantees: each statement gets the same values, in the same order where sums are concerned. Applies to a
// nest, outermost first, that no parallel loop is around, whose iterations are worth the passes over memory and do not
// keep the machine busy as it is, by estimate, when
//   - every instance of the reads concerned, whatever the order of iterations, sees what was there before the nest,
//   - without them the loop carries nothing but sums, or falls apart into loops that do,
//   - copies of about as many elements as it touches serve them (copy_before.h).
// Where loops around are parallel but have few iterations, the copy is for all of these. Leaves alone: arrays that may
// alias, bounds that are data, loops with products of matrices or stacks, `while` loops themselves.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program read_before(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
