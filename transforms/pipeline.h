// The passes between a program and its emission, as one list: see `passes()` in pipeline.cpp.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/machine.h"
#include "transforms/record.h"

#include <loopgrad/report.h>
#include <loopgrad/schedule.h>

#include <map>
#include <set>

namespace loopgrad::transforms {

/// What becomes of sums that several iterations share.
enum class SumMode {
  Restructured,  // gather, tree or serial: bitwise repeatable for any number of threads, no atomics
  Atomic,        // loops that carry only sums are parallel as they stand, their sums atomic
  Serial,        // no parallel loops at all (the naive tape; the oracle's order)
};

/// The list has three parts; every row belongs to one.
enum class Part {
  Bounds,   // what keeps a run within its arrays
  Shared,   // sums, loops and storage: the result runs anywhere
  Mapping,  // to the loops of the machine
};

/// Accesses that `Part::Bounds` looks after: see bound_accesses.h.
enum class Bounded { Nothing, Writes, Accesses };

/// What a program is lowered for.
struct LowerOptions {
  SumMode mode = SumMode::Restructured;
  Machine machine = cpu_machine();
  Bounded bounded = Bounded::Nothing;
  bool records_trips = true;                                // it is the first to run loops with a promised trip count
  std::set<ir::Array> computed = {};                        // inputs that the program before it writes
  Schedule schedule = {};                                   // steps for this program
  std::map<std::string, std::int64_t> expected_sizes = {};  // what estimates of costs are based on
  int threads_per_block = 0;  // of a GPU, of every block that has more than one: a power of two from 32 to 1024;
                              // 0: as fits the loops
  Part first = Part::Bounds, last = Part::Mapping;
  std::string until = {};           // the pass after which to stop; empty: none
  std::set<std::string> skip = {};  // passes that are left out; those that nothing works without are not
};

/// A program as it is emitted, what it notes while it runs, and for a GPU why its kernels look as they do.
struct Lowered {
  ir::Program program;
  std::vector<Record> records = {};
  std::vector<KernelDecision> kernels = {};
};

/// Runs the whole list: the only way from a program to what is emitted. The result has parallel loops marked, sums
/// restructured, and the shape of the machine's loops; it verifies, prints and interprets like any other program, and
/// computes the same up to the rounding of reordered sums. Never throws for the sake of speed: what cannot be improved
/// stays in its order, with an entry in `report` saying why. The user's `schedule`, however, is done or refused:
/// TransformError, UsageError.
/// Environment: LOOPGRAD_DUMP=after:PASS prints the program after a pass to standard error, LOOPGRAD_TIME=1 the time of
/// each, LOOPGRAD_VERIFY=1 verifies after each (always in debug builds), LOOPGRAD_SKIP=PASS,PASS leaves passes out.
/// Throws UsageError for a name in LOOPGRAD_SKIP, `skip` or `until` that no pass has.
Lowered lower_for(const ir::Program& program, const LowerOptions& options, Report& report);

}  // namespace loopgrad::transforms
