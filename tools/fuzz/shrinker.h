// Makes a failing program small enough to read.
#pragma once

#include "tools/fuzz/case.h"

#include <functional>

namespace loopgrad::fuzz {

/// Drops statements, loops, branches, operands, arrays, facts, sizes and passes to leave out as long as `still_fails`
/// says so, until nothing more can go, the predicate was asked `attempts` times or `is_over` says so. Candidates may be
/// programs that read what they have not written; the predicate has to tell those from the failure that it looks for.
Case shrink(
    Case c, const std::function<bool(const Case&)>& still_fails, int attempts = 2000,
    const std::function<bool()>& is_over = [] { return false; });

}  // namespace loopgrad::fuzz
