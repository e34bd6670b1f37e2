// How much there is to do in a loop, for whoever asks whether threads pay for it.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// An estimate of the operations that one trip of a loop executes, as an expression in symbols bound outside of the
/// loop. Trip counts of inner loops that depend on data or on the iterators in between count as the average (see
/// average_row.h), as what the loop makes at most, if one of these is known, or as a constant. Large expressions of
/// sizes alone are computed once, not in each trip.
ir::Expr work_of_trip(const ir::Program& program, const ir::For& loop);

}  // namespace loopgrad::transforms
