// Keeps the positions that a counter gives out, where the statements that use one find it.
//
//   for i in 0..n:                 for i in 0..n:
//     if b[i] > 0:          ->       if b[i] > 0:
//       j += 1                         j += 1
//       a[j] = b[i]                    j_place[i] = j             # fact j_place distinct
//                                      a[j_place[i]] = b[i]
//
// Once the counter is a recurrence of its own (isolate_recurrences.h), whose values repeat wherever nothing was
// counted, these tell that the iterations write different elements.
#pragma once

#include "dsl/ir/program.h"

#include <vector>

namespace loopgrad::transforms {

struct CounterPositions {
  ir::Stmt loop;
  std::vector<ir::Array> arrays;  // to be declared around it, and stated to be distinct
};

/// Requires: `loop` is a For of the program in no other loop. Leaves alone: statements that find the counter at one
/// value several times (growing_counters.h); those in loops with bounds that other loops of the nest or data decide.
CounterPositions with_counter_positions(const ir::Program& program, const ir::Stmt& loop, const ir::Array& counter);

}  // namespace loopgrad::transforms
