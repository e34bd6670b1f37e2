// Compiled runs of random programs at their medium sizes, many programs in one translation unit.
#pragma once

#include "tools/fuzz/check.h"

#include <functional>

namespace loopgrad::fuzz {

struct CompiledOptions {
  Axes axes = {};
  bool device = false;  // also on the GPU of this machine
};

/// For each program: what runs compiled against the interpreter, which computes in the declared types and runs the
/// naive tape's gradient as it is written. Restructured gradients must have the same bits with 1, 2, 3 and 7 threads.
/// Programs whose results change by much when their inputs change by what their types cannot tell apart are only
/// compared with themselves. `now(i, what)` is told what is being done with the program of that number.
std::vector<Outcome> check_compiled(const std::vector<Case>& cases, const CompiledOptions& options,
                                    const std::function<void(std::size_t, const std::string&)>& now);

}  // namespace loopgrad::fuzz
