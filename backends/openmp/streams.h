// Rows that go past the caches: in a loop that assigns a row of an array that nobody reads, and uses more than a cache
// holds, each part of the row is computed into a small buffer and stored from there without fetching what it
// overwrites.
//
//     for (j = 0; j < n; ++j) y[i*n + j] = f(x[i*n + j]);
//  ->
//     if (n >= stream_part && is_streamed(4 * n * n + 4 * n * n)) {
//       for (j_part = 0, j_end; j_part < n; j_part = j_end) {
//         alignas(64) float y_part[stream_part];
//         j_end = end_of_part(&y[i*n + j_part], j_part, n);
//         for (j = j_part; j < j_end; ++j) y_part[j - j_part] = f(x[i*n + j]);
//         stream(&y[i*n + j_part], y_part, j_end - j_part);
//       }
//     } else (as before)
//
// An ordinary store first reads its line from memory: a quarter to a half of the traffic of simple loops. Stores that
// go past the caches are not ordered as others are; `stream_fence` at the end of a parallel region makes up for that.
#pragma once

#include "backends/c_text/code_text.h"
#include "backends/openmp/clauses.h"

#include <functional>
#include <set>
#include <vector>

namespace loopgrad::backend {

/// Arrays of the caller that the program assigns elements of and does nothing else with.
std::set<ir::Array> unread_arrays(const ir::Program& program);

/// The assignments of a loop without loops, locals or sums inside whose elements are next to each other, of arrays that
/// are among `unread`: one for each array, which every iteration does. Empty where the loop is short, or computes more
/// than it stores.
std::vector<const ir::Assign*> streamed_rows(const ir::For& loop, const std::set<ir::Array>& unread);

/// The first branch: the loop with these bounds in parts. `emit_body` writes statements without loops.
void emit_streamed(const ir::For& loop, const std::vector<const ir::Assign*>& rows, const LoopHeader& header,
                   CodeText& code, EmitState& state, const std::function<void(const ir::Stmt&)>& emit_body);

extern const char* const stream_text;  // the C++ helpers

}  // namespace loopgrad::backend
