// The passes between a program and its emission, as one list: see `passes()` in pipeline.cpp.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/pass/options.h"
#include "transforms/pass/record.h"

#include <loopgrad/report.h>

namespace loopgrad::transforms {

/// A program as it is emitted, what it notes while it runs, and for a GPU why its kernels look as they do.
struct Lowered {
  ir::Program program;
  std::vector<Record> records = {};
  std::vector<KernelDecision> kernels = {};
  KeptOrders kept = {};
};

/// Runs the whole list: the only way from a program to what is emitted. The result has parallel loops marked, sums
/// restructured, and the shape of the machine's loops; it verifies, prints and interprets like any other program, and
/// computes the same up to the rounding of reordered sums. Never throws for the sake of speed: what cannot be improved
/// stays in its order, with an entry in `report` saying why. The user's `schedule`, however, is done or refused:
/// TransformError, UsageError.
/// Environment: LOOPGRAD_DUMP=after:PASS prints the program after a pass to standard error, LOOPGRAD_TIME=1 the time of
/// each, LOOPGRAD_VERIFY=1 verifies after each (always in debug builds), LOOPGRAD_SKIP=PASS,PASS leaves passes out.
/// Throws UsageError for a name in LOOPGRAD_DUMP, LOOPGRAD_SKIP, `skip` or `until` that no pass has.
Lowered lower_for(const ir::Program& program, const LowerOptions& options, Report& report);

/// The same list of passes as far as the row before apply_schedule: what the first step of a schedule sees.
LowerOptions up_to_schedule(LowerOptions options);
/// As far as the row before map_to_gpu: whole nests of parallel loops, with scans and sorts in their blocks. Everything
/// on a CPU.
LowerOptions up_to_mapping(LowerOptions options);
ir::Program before_schedule(const ir::Program& program, const LowerOptions& options = {});

}  // namespace loopgrad::transforms
