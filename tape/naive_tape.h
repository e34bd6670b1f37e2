// The classic tape: one run-time stack, pushed in the forward sweep and popped in exactly the reverse order. No
// analysis of what could be read again instead: every needed value is pushed. It is the baseline that users compare
// with and an oracle that does not share the tape plan.
#pragma once

#include "tape/gradient_program.h"

namespace loopgrad::tape {

struct Sweeps {
  ir::Stmt forward, backward;
};

/// Needed values are pushed right before the statement that uses them; trip counts, bounds and branch decisions that
/// depend on data right after the loop or branch. Both sweeps are sequential (a stack fixes the order).
Sweeps naive_sweeps(const Prepared& prepared, Report& report);

}  // namespace loopgrad::tape
