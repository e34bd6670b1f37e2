// What a loop does with the value that it carries, and what a step of it reads: whether a scan is allowed, and pays.
#pragma once

#include "transforms/sums/scans/recurrence.h"

namespace loopgrad::transforms {

/// Whether something in `s` that decides (a branch, an index, an extremum, what is rounded to an integer) depends on
/// elements of `array`, through scalars of the body as well.
bool decides(const ir::Stmt& s, const ir::Array& array);

/// Different elements that a step reads, other than the value before.
int elements_read(const ir::For& loop, const Update& update);

/// What is kept until some iteration takes it is a search (search_loops.h).
bool only_resets(const Update& update);

}  // namespace loopgrad::transforms
