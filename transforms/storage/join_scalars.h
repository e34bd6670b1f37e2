// Assignments to single elements move up to the last ones before them, with which they share a kernel.
//
//   for b in 0..blocks: d[j] += part[b]            for b in 0..blocks: d[j] += part[b]
//   parallel for k in 0..j: d[k] += e[k]     ->    d[j] = d[j]/a[j]
//   d[j] = d[j]/a[j]                               parallel for k in 0..j: d[k] += e[k]
//   parallel for k in 0..j: d[k] -= d[j]*a[k]      parallel for k in 0..j: d[k] -= d[j]*a[k]
//
// There is a launch less, and nests that it stood between are neighbours. Requires: parallel loops are marked; looks at
// the host's part of a program only. Guarantees: every element gets the same operations in the same order. Leaves
// alone: assignments that touch what a nest in between changes, or change what it touches; arrays that may alias.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// An assignment or a sum of one element, not an atomic one.
bool is_assignment(const ir::Stmt& s);
/// A sequential loop that does nothing but to sum into single elements.
bool is_lone_sum(const ir::Stmt& s);

ir::Program join_scalars(const ir::Program& program);

}  // namespace loopgrad::transforms
