// How much there is to do in the loops inside of a parallel loop, to choose which of them the threads of a block share.
#pragma once

#include "transforms/analysis/analysed.h"

#include <optional>

namespace loopgrad::transforms {

/// Of one iteration, at most, in sizes: how many steps the loops inside make, and how often the threads would meet if
/// they shared the innermost of them.
struct InnerWork {
  ir::Expr steps, meetings;
};

/// `loop` is a parallel one of `program`, by identity. Nullopt where the host cannot bound it, or loops inside do more
/// than to sum.
std::optional<InnerWork> inner_work(const Analysed& program, const ir::For& loop);

}  // namespace loopgrad::transforms
