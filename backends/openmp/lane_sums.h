// Eight sums over one loop in vector lanes that are added up all at once (see vectorize_loops).
#pragma once

#include "backends/c_text/code_text.h"
#include "backends/openmp/clauses.h"

namespace loopgrad::backend {

extern const char* const lane_sums_text;

/// The loop with this header. Requires that it says `lane_sums`. Which lane adds what depends on the bounds alone, and
/// so do the bits.
void emit_lane_sums(const ir::For& loop, const LoopHeader& header, CodeText& code, EmitState& state);

}  // namespace loopgrad::backend
