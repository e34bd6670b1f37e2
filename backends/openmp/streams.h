// Rows that go past the caches (see stream_rows): where a loop uses more than a cache holds, each part of a row is
// computed into a small buffer and stored from there without fetching what it overwrites.
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
// Stores that go past the caches are not ordered as others are; `stream_fence` at the end of a parallel region makes up
// for that.
#pragma once

#include "backends/c_text/code_text.h"
#include "backends/openmp/clauses.h"

#include <functional>

namespace loopgrad::backend {

/// The first branch: the loop with these bounds in parts. `emit_body` writes statements without loops.
void emit_streamed(const ir::For& loop, const LoopHeader& header, CodeText& code, EmitState& state,
                   const std::function<void(const ir::Stmt&)>& emit_body);

extern const char* const stream_text;  // the C++ helpers

}  // namespace loopgrad::backend
