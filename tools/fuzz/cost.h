// How much work a program is at given sizes, without running it.
#pragma once

#include "tools/fuzz/case.h"

namespace loopgrad::fuzz {

/// Statements executed plus elements of arguments, roughly: a loop whose trip count depends on data counts what its
/// index array can make of it.
double estimated_work(const ir::Program& program, const Sizes& sizes,
                      const std::map<std::string, IndexContents>& contents = {});

}  // namespace loopgrad::fuzz
