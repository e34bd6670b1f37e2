// Which threads of a block set the block's scalars.
//
//   t = 2*x                              threads for u in 0..1:
//   threads for u in 0..1: t += y    ->    t = 2*x
//                                          t += y
//
// A scalar of the block that every thread sets for itself stays so, unless a single thread sets it elsewhere. No part
// of the storage plan: scalars stay what they are, and it is decided who sets them.
#pragma once

#include "dsl/ir/stmt.h"

namespace loopgrad::transforms {

/// `body` is inside a kernel, Threads loops made. Statements that set what a single thread sets elsewhere become a
/// single thread's, too, and loops of a single thread in a row, under conditions or not, become one.
ir::Stmt settle_scalars(const ir::Stmt& body);

}  // namespace loopgrad::transforms
