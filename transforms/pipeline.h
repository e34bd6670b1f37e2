// The passes between a program and its emission, as one list: see `passes()` in pipeline.cpp.
#pragma once

#include "dsl/ir/program.h"

#include <loopgrad/report.h>
#include <loopgrad/schedule.h>

#include <map>

namespace loopgrad::transforms {

/// What becomes of sums that several iterations share.
enum class SumMode {
  Restructured,  // gather, tree or serial: bitwise repeatable for any number of threads, no atomics
  Atomic,        // loops that carry only sums are parallel as they stand, their sums atomic
  Serial,        // no parallel loops at all (the naive tape; the oracle's order)
};

/// Partial results of one long sum that `lower` makes for a CPU; see gpu/map_to_gpu.h for a GPU.
inline constexpr std::int64_t cpu_tree_blocks = 64;

/// What the user and the target add.
struct LowerOptions {
  Schedule schedule = {};                                   // steps for this program
  std::map<std::string, std::int64_t> expected_sizes = {};  // what estimates of costs are based on
  std::int64_t tree_blocks = cpu_tree_blocks;  // at most so many partial results of one sum, for any number of threads

  bool for_gpu() const { return tree_blocks > cpu_tree_blocks; }
};

/// Runs the whole list. The result has parallel loops marked and sums restructured; it verifies, prints and interprets
/// like any other program, and computes the same up to the rounding of reordered sums. Never throws for the sake of
/// speed: what cannot be improved stays in its order, with an entry in `report` saying why.
/// The user's `schedule`, however, is done or refused: TransformError, UsageError.
/// LOOPGRAD_DUMP=after:PASS prints the program after a pass to standard error, LOOPGRAD_TIME=1 the time of each.
ir::Program lower(const ir::Program& program, SumMode mode, Report& report, const LowerOptions& options = {});

}  // namespace loopgrad::transforms
