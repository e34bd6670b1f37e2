// Single elements that a nest reads are computed by each of its blocks, in place of one block before it.
//
//   parallel for b in 0..blocks: part[b] = ..      parallel for b in 0..blocks:
//   for b in 0..blocks: d[j] += part[b]              part[b] = ..
//   d[j] = d[j]/a[j]                                 if b == 0: d_before[0] = d[j]
//   parallel for k in 0..j: d[k] -= d[j]*a[k]  ->  if !few: for b in 0..blocks: d[j] += part[b]; d[j] = d[j]/a[j]
//                                                  if few: parallel for k in 0..j:
//                                                    local f32 d_own
//                                                    d_own = d_before[0]
//                                                    for b in 0..blocks: d_own += part[b]
//                                                    d_own = d_own/a[j]
//                                                    d[k] -= d_own*a[k]
//                                                    if k == 0: d[j] = d_own
//                                                  else: parallel for k in 0..j: d[k] -= d[j]*a[k]
//
// A kernel of one block costs as much as its launch and two accesses one after the other; reading some hundred partial
// results again costs less, while the blocks are `few` (known from sizes; the nest has then at least one iteration,
// too).
//
// Requires: parallel loops are marked; looks at the host's part of a program only. Guarantees: every element gets the
// same operations in the same order. Leaves alone: elements that the nest touches in other ways than to read them
// there, whose operands it changes, or whose old value no nest before can keep because none is sure to have an
// iteration or it changes them; single assignments without a sum (as cheap for a block, but not for each thread);
// arrays that may alias.
//
// A pass of its own: others let a scalar take the place of an element within one kernel; here it saves a kernel. Of 400
// programs it changes cholesky alone, whose backward sweep takes 3.20 ms for 2.73 without it on an H200.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/pass/machine.h"

namespace loopgrad::transforms {

/// Iterations that may compute for themselves what all need.
std::int64_t most_repeating(const Machine& machine);

/// `most_blocks`: iterations of a nest that are few enough.
ir::Program repeat_scalars(const ir::Program& program, std::int64_t most_blocks);

}  // namespace loopgrad::transforms
