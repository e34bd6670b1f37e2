// Decides what memory the local arrays of a kernel live in.
//
//   grid for r in 0..rows:                        grid for r in 0..rows:
//     local f32 tile[64] (block)                    local f32 tile[64] (block)                        # declared in the
//     kernel local f32 row[m - r] (block)          ->      local f32 row[m - r] (block) (of the launch: m)
//
// Small arrays of constant extents are declared in the kernel: 20 KiB of one that a block shares, 40 of all (it has 48
// without asking for more), 1 KiB of one of a thread, 32 of all. The memory of all others comes with the launch, which
// needs their largest extents in what the host knows: sizes and the iterators of its loops. By interval arithmetic;
// where that gives no bound the array is left as it is, and an emitter has to refuse it.
//
// Requires: locals have homes (place_locals). Changes nothing else.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program reserve_locals(const ir::Program& program);

}  // namespace loopgrad::transforms
