// A gradient whose tape stays within a budget: loops run again, segment by segment, where it would not.
#pragma once

#include "tape/direct_tape.h"

namespace loopgrad::tape {

/// Like direct_gradient(), part by part of the program's own statements: loops among them whose tape grows with their
/// iterations become a SegmentedLoop, others are parts as they are. What a part's sweep reads and a later part changes,
/// or declares around all, is saved after it.
///
/// `most_bytes`: of tapes and checkpoints in both runs, as far as sizes allow; `needed_tape_bytes` among the sizes
/// tells what they take. Throws DifferentiationError where an extent depends on what the program itself computes.
DirectGradient checkpointed_gradient(const Prepared& prepared, std::int64_t most_bytes, Report& report);

}  // namespace loopgrad::tape
