// How much there is to do in a loop, for whoever asks whether threads pay for it.
#pragma once

#include "dsl/ir/program.h"

#include <set>

namespace loopgrad::transforms {

/// An estimate of the operations that one trip of a loop executes, as an expression in symbols bound outside of the
/// loop. Trip counts of inner loops that depend on data or on the iterators in between count as what the
/// loop makes at most, if that is stated, or as a constant. Large expressions of sizes alone
/// are computed once, not in each trip.
ir::Expr work_of_trip(const ir::For& loop, const std::set<ir::Symbol>& sizes);

}  // namespace loopgrad::transforms
