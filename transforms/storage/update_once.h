// Updates of one element by one thread go to a scalar, and to memory once.
//
//   u[t, i] += a[i]                          local f32 u_now
//   if i > 0:                                u_now = u[t, i]
//     u[t, i] += u[t + 1, i - 1]*c     ->    u_now += a[i]
//   if i + 1 < n:                            if i > 0: u_now += u[t + 1, i - 1]*c
//     u[t, i] += u[t + 1, i + 1]*c           if i + 1 < n: u_now += u[t + 1, i + 1]*c
//                                            u[t, i] = u_now
//
// In between, each load from the array would have to wait for the store before it. So does an element that a loop
// changes in each trip, if the loop makes one: `if 0 < m: ..`.
//
// In a body that the threads of a block share, each has the scalar for itself, and loads it before the loops that add
// to it.
//
// Requires: the body of one thread, or of a block's before its loops are spread. Guarantees: every element gets the
// same operations in the same order. Leaves alone: elements that are not updated in any case (they need not exist), and
// bodies with While loops or stacks. What a scalar takes no place of: elements_in_scalars.h.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Stmt update_once(const ir::Program& program, const ir::Stmt& body);

}  // namespace loopgrad::transforms
