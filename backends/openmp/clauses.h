// The clauses of a parallel loop's pragmas.
#pragma once

#include "backends/c_text/expr_text.h"
#include "dsl/ir/program.h"

#include <string>
#include <vector>

namespace loopgrad::backend {

/// `for (...)` as it is written, and its bounds.
struct LoopHeader {
  std::string open;
  std::string lower, upper;
};

/// A loop that runs on threads, and its header.
struct ThreadLoop {
  const ir::For* loop;
  LoopHeader header;
};

/// The condition under which threads pay for a region with these loops (For::work); empty when one is known to be
/// large.
std::string pays_text(const std::vector<ThreadLoop>& loops, EmitState& state);

/// How many iterations of an uneven loop a thread fetches at once: there are about 64 shares per thread.
std::string share_text(const ir::For& loop, const LoopHeader& header, EmitState& state);

/// ` reduction(+ : a, b) simdlen(8)` of a loop in vector lanes, or nothing.
std::string lane_clauses(const ir::For& loop, EmitState& state);

}  // namespace loopgrad::backend
