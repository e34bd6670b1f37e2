// A scan by plain loops: each thread takes pieces whole.
//
// Where neighbouring rows are neighbours in memory, threads side by side take a piece of neighbouring rows; on a CPU a
// thread takes a few long pieces. Pieces are composed in order by one thread for each row.
#pragma once

#include "transforms/sums/scans/sequence.h"

namespace loopgrad::transforms {

/// The recurrence in pieces of `length` iterations, in loops `around` it whose iterations do not see each other.
ir::Stmt scan_by_pieces(const Recurrence& r, const LoopsAround& around, const ir::Expr& length);

}  // namespace loopgrad::transforms
