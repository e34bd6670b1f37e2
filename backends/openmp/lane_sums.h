// Eight sums over one loop, as jam_sums makes them, in vector lanes that are added up all at once.
//
//   for d: {s += q[d]*k[8*o, d]; s_1 += q[d]*k[8*o + 1, d]; ..}
//
// Left to itself, a compiler adds up the lanes of each sum apart, which for short loops takes longer than the sums.
#pragma once

#include "backends/c_text/code_text.h"
#include "backends/openmp/clauses.h"

namespace loopgrad::backend {

extern const char* const lane_sums_text;

/// The sums of a loop that does nothing but these: eight into scalars of one type, f32 or f64, from products and the
/// like of elements that stay or move on by one. Empty for any other loop. Requires that the iterations may run in
/// vector lanes (plan_simd).
std::vector<const ir::Reduce*> lane_sums_of(const ir::For& loop);

/// The loop with this header. Which lane adds what depends on the bounds alone, and so do the bits.
void emit_lane_sums(const ir::For& loop, const std::vector<const ir::Reduce*>& sums, const LoopHeader& header,
                    CodeText& code, EmitState& state);

}  // namespace loopgrad::backend
