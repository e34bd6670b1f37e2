// Nothing is written outside of arrays, whatever the program computes: an index is brought into its extent,
//
//   for i in 0..n:                         for i in 0..n:
//     bin = i64(x[i])               ->       bin = i64(x[i])
//     h[bin[]] += w[i]                       if bin[] < 0 || bin[] >= m: record[0] max= bin[]
//                                            h[max(min(bin[], m - 1), 0)] += w[i]
//
// and a loop makes no more trips than its `at_most` promises:
//
//   for t in 0..b[] (at most 4):  ->       record[0] max= select(b[] > 4, b[], nothing_recorded)
//                                          for t in 0..min(b[], 4):
//
// Whoever runs the program looks at the record afterwards: an element that is not `nothing_recorded` is an error of the
// user's. All of this is ordinary code, made before any other pass: whatever sums, sorts or inverts by such an index
// finds one that is in range.
//
// Left alone: what stays in range by the bounds of loops and by stated facts, and what is known before the program
// runs; both are verified then (see backends/facts_program.h).
#pragma once

#include "dsl/ir/program.h"
#include "transforms/record.h"

namespace loopgrad::transforms {

/// Cuts off trips beyond `at_most`; for a program as the user wrote it or as differentiation made it. `record`: also
/// records trip counts; not needed where another program has done it on the same data.
ir::Program bound_trips(const ir::Program& program, Record* record);

/// `reads`: also what is read, not only what is written. An array without elements keeps an access to element 0: give
/// it memory of one.
ir::Program bound_accesses(const ir::Program& program, bool reads, Record& record);

}  // namespace loopgrad::transforms
