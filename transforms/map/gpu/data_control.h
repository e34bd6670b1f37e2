// Control flow that data decide, for a host that starts kernels without waiting for what they compute: it goes through
// all steps that there may be, and kernels look up whether theirs takes place.
//
//   for it in 0..n while r[] > e:           go[0] = true
//     s = 0                                 for it in 0..n:
//     <kernels>                       ->      go[it + 1] = go[it] && r[] > e
//                                             if go[it + 1]: s = 0              # in one kernel with the line before
//                                             if go[it + 1]: <kernels>
//
//   for i in 0..m[] (at most n):            last = m[]
//     <kernels>                       ->    for i in 0..n:
//                                             if i < last[]: <kernels>
//
//   if x[0] > 0: <kernels>            ->    taken = x[0] > 0
//                                           if taken[]: <kernels>
//
// The sequence of launches stays one that sizes decide, which can be planned once, captured and replayed.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// What stands for a loop or a branch in code of the host.
struct HostSteps {
  ir::Stmt code;    // null: there is nothing that could
  ir::Expr trips;   // of a sequential loop, those that the host goes through; null for others
  ir::Symbol loop;  // its iterator
};

/// Of a While whose bound the host knows; of a For whose lower bound it knows, and how many trips there may be; of an
/// If whose condition it does not know. Guarantees: every branch on data that this makes is_guard().
HostSteps host_steps(const ir::Stmt& s);

/// Whether the branch reads nothing but locals that its body leaves alone, so that its kernels may each ask again.
bool is_guard(const ir::If& branch);

/// Host code in which every kernel does its work only where `condition` holds. Requires: is_guard(); no Contraction.
ir::Stmt guard_kernels(const ir::Stmt& launches, const ir::Expr& condition);

}  // namespace loopgrad::transforms
