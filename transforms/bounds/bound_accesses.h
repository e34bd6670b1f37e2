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
// Where iterators decide the index and data whether the access happens, the statement gets a condition in place of a
// clamped index, which would be the same element for several iterations:
//
//   for i in 0..n:                         for i in 0..n:
//     if x[i] > 0: y[i + 1] = x[i]  ->       if x[i] > 0: (the note; if i + 1 < n: y[i + 1] = x[i])
//
// So it does where a counter that only grows is the index, or a tape of its values (growing_counters.h).
//
// Whoever runs the program looks at the record afterwards: an element that is not `nothing_recorded` is an error of the
// user's. All of this is ordinary code, made before any other pass: whatever sums, sorts or inverts by such an index
// finds one that is in range.
//
// Left alone: what stays in range by the bounds of loops and by stated facts, what sizes decide, and what is known
// before the program runs; all of that is verified then (see backends/facts_program.h).
#pragma once

#include "dsl/ir/program.h"
#include "transforms/pass/record.h"

#include <set>

namespace loopgrad::transforms {

/// How the elements of a record are updated.
enum class Notes {
  AsSums,  // as any sum: for a CPU, where a loop with its vector lanes has maxima of its own
  Atomic,  // see ir::is_note: for a GPU, where a maximum over a nest would need its iterations in blocks
};

/// Cuts off trips beyond `at_most`; for a program as the user wrote it or as differentiation made it. `record`: also
/// records trip counts; not needed where another program has done it on the same data.
ir::Program bound_trips(const ir::Program& program, Record* record, Notes notes = Notes::AsSums);

/// `computed`: inputs that another program computes, so that nobody has looked at them before the run: outputs that a
/// backward program is given. `reads`: also what is read, not only what is written and what is read of arrays with
/// facts about a range, which others rely on, or that relies on integers which the program itself puts into an array
/// where it may miss it. An array without elements keeps an access to element 0: give it memory of one.
ir::Program bound_accesses(const ir::Program& program, bool reads, Record& record,
                           const std::set<ir::Array>& computed = {}, Notes notes = Notes::AsSums);

}  // namespace loopgrad::transforms
