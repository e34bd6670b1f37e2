// How much there is to do in a loop, for whoever asks whether threads pay for it.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// An estimate of the operations that one trip of a loop executes, as an expression in symbols bound outside of the
/// loop; those of iterations in lanes as if these were eight. Trip counts of inner loops that move with iterators in
/// between count as the width of a band or half of the most (see moving_trips.h); those that data decide as the average
/// (see average_row.h), as what the loop makes at most, as half of what a fact allows, if one of these is known, or as
/// a constant. Large expressions of sizes alone are computed once, not in each trip. `together`: so many perfectly
/// nested loops, the first of which this is, are one loop for threads, and have no lanes.
ir::Expr work_of_trip(const ir::Program& program, const ir::For& loop, int together = 1);

}  // namespace loopgrad::transforms
