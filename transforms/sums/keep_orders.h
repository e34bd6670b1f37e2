// What follows from index arrays alone is computed first, and kept from run to run while these stay as they are.
//
//                                                     inout i32 order[n]                  owned by the runtime
//   for t in 0..steps:                                if stale != 0:
//     local i32 order[n]                                if 0 < steps:
//     order = positions sorted by idx         ->          order = positions sorted by idx
//     parallel for v in 0..m:                         for t in 0..steps:
//       y[v] += the sum of x[order[p]] over p           parallel for v in 0..m:
//                                                         y[v] += the sum of x[order[p]] over p
//
// Sorted iterations and inverses of index arrays (sort_scatters.h, invert_scatters.h) are such arrays. The runtime sets
// the new size `stale` to 0 where all arrays that decide are those of an earlier run: the same memory, with the same
// version that the caller has given it (`versioned` in loopgrad/arrays.h), and the same sizes; to 1 where the kept
// arrays hold nothing yet; and to 2 where they hold what an earlier run with these sizes has found: then the program
// compares the arrays that decide with what it has noted of them (changed_inputs.h).
//
// Requires: arrays are indexed as they will be emitted. Guarantees: the same results with stale = 1, with stale = 2
// where the kept arrays are as another run of the program has left them, and with stale = 0 where that had the same
// deciding arrays. Moves: statements
// outside of parallel loops that read inputs of integers, which the program never writes, and what such statements have
// computed; from sequential loops and conditions of sizes, too. Leaves alone: what floating-point numbers decide, as
// these change with every call; arrays of which an extent depends on an iterator; single elements.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/pass/options.h"
#include "transforms/pass/record.h"

namespace loopgrad::transforms {

/// As `options.orders` says, which is Kept or Compared. `kept.arrays` is empty where there is nothing to keep.
ir::Program keep_orders(const ir::Program& program, KeptOrders& kept, const LowerOptions& options);

}  // namespace loopgrad::transforms
