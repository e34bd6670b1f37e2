// How much there is to do in a loop, for whoever asks whether threads pay for it.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// An estimate of the operations that one trip of a loop executes, as an expression in symbols bound outside of the
/// loop. Trip counts of inner loops that depend on data or on the iterators in between count as what the
/// loop makes at most, if that is stated, or as a constant.
ir::Expr work_of_trip(const ir::For& loop);

}  // namespace loopgrad::transforms
