// Compiled runs of random programs at their medium sizes, many programs in one translation unit.
#pragma once

#include "tools/fuzz/check.h"

#include <functional>

namespace loopgrad::fuzz {

struct CompiledOptions {
  Axes axes = {};
  bool device = false;  // also on the GPU of this machine
};

/// Who looks on while programs are compiled and run.
struct CompiledWatch {
  /// Told what is being done with the program of that number.
  std::function<void(std::size_t, const std::string&)> now = [](std::size_t, const std::string&) {};
  /// Asked before each step: true leaves out all that are left.
  std::function<bool()> is_over = [] { return false; };
};

/// For each program: what runs compiled against the interpreter, which computes in the declared types and runs the
/// naive tape's gradient as it is written. Restructured gradients must have the same bits with 1, 2, 3 and 7 threads.
/// Programs whose results change by much when their inputs change by what their types cannot tell apart are only
/// compared with themselves. Programs that were not run to the end, as `is_over` said or after an error on the GPU,
/// which spoils all that follows there, are left `unfinished`.
std::vector<Outcome> check_compiled(const std::vector<Case>& cases, const CompiledOptions& options,
                                    const CompiledWatch& watch = {});

}  // namespace loopgrad::fuzz
