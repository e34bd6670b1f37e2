// How much there is to do in the loops inside of a parallel loop, to choose which of them the threads of a block share.
#pragma once

#include "transforms/analysis/analysed.h"

#include <optional>

namespace loopgrad::transforms {

/// Of one iteration, at most, in sizes: how many steps the innermost loops make, how often the threads would meet if
/// they shared those that they can share, and how many steps are in the others, which one thread does.
struct InnerWork {
  ir::Expr steps, meetings, alone;
};

/// Whether `threads` threads better take iterations of `loop` whole than share what is in each: a meeting costs as much
/// as a few steps of all threads, of which each then reads a row of its own.
ir::Expr own_iterations_pay(const ir::For& loop, const InnerWork& work, const ir::Expr& threads);

/// `loop` is a parallel one of `program`, by identity. Nullopt where the host cannot bound it, where threads could
/// share nothing inside, or where they could share a parallel loop inside for which they need not wait for each other.
std::optional<InnerWork> inner_work(const Analysed& program, const ir::For& loop);

/// The most iterations that parallel loops inside of each other have in a branch, or in one iteration of a sequential
/// loop, in sizes and iterators around it. Rows of CSR structures count as long as they are on average, other loops
/// whose bounds are data as any of that kind does.
ir::Expr iterations_at_once(const ir::Program& program, const ir::Stmt& s);

/// Those that the host does know of.
ir::Expr known_iterations_at_once(const ir::Stmt& s);

}  // namespace loopgrad::transforms
