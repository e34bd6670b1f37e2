// A scan by the threads of a GPU's block: a tile of the sequence at a time, in the memory that they share.
//
// Each thread composes a few neighbouring iterations, groups of threads then compose theirs, and each thread goes
// through its own again from where they start. Neighbouring threads load and store neighbouring elements. A block
// takes the tiles of a row one after the other, so that a row is read and written once; where rows are few, each tile
// has a block, and the tiles' composites are a sequence that one block scans in between.
#pragma once

#include "transforms/sums/scans/sequence.h"

namespace loopgrad::transforms {

struct TeamShape {
  std::int64_t threads, group, each;  // of a block; that compose one after the other; iterations of each
  std::int64_t tile() const { return threads * each; }
};

/// Blocks of so many threads, or of the usual number where that is 0, for tiles of about `tile` iterations.
TeamShape team_shape(std::int64_t threads, std::int64_t tile);

/// The recurrence, in loops `around` it (outermost first) whose iterations do not see each other.
ir::Stmt rows_by_teams(const Recurrence& r, const LoopsAround& around, const TeamShape& shape);
ir::Stmt tiles_by_teams(const Recurrence& r, const LoopsAround& around, const TeamShape& shape);

}  // namespace loopgrad::transforms
