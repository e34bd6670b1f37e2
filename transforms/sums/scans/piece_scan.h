// A scan by plain loops: each thread takes pieces whole.
//
// Where neighbouring rows are neighbours in memory, threads side by side take a piece of neighbouring rows. On a CPU
// vector lanes take a few long pieces side by side, so that one step need not wait for the one before: that pays for
// doing all steps twice before there are any threads. Pieces are composed in order by one thread for each row.
#pragma once

#include "transforms/sums/scans/sequence.h"

namespace loopgrad::transforms {

/// The recurrence in pieces of `length` iterations, in loops `around` it whose iterations do not see each other.
ir::Stmt scan_by_pieces(const Recurrence& r, const LoopsAround& around, const ir::Expr& length);

/// The same in `groups` of pieces for `lanes` each, all of one length, and what is left over in order.
ir::Stmt scan_by_lanes(const Recurrence& r, const LoopsAround& around, std::int64_t groups, std::int64_t lanes);

}  // namespace loopgrad::transforms
