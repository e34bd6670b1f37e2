// What a program is lowered for: see `lower_for` in pipeline.h.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/pass/machine.h"

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

/// The list has four parts; every row belongs to one.
enum class Part {
  Bounds,   // what keeps a run within its arrays
  Shared,   // sums, loops and storage: the result runs anywhere
  Mapping,  // to the loops of the machine
  Running,  // how the machine runs these: threads, vector lanes, memory; the loops stay as they are
};

/// Accesses that `Part::Bounds` looks after: see bound_accesses.h.
enum class Bounded { Nothing, Writes, Accesses };

/// What becomes of arrays that follow from index arrays alone: see keep_orders.h.
enum class Orders {
  Computed,  // in each run
  Kept,      // whoever runs it has memory for KeptOrders, and says whether they still hold
  Compared,  // the program itself can also see whether they do
};

/// What a program is lowered for.
struct LowerOptions {
  SumMode mode = SumMode::Restructured;
  Machine machine = cpu_machine();
  Bounded bounded = Bounded::Nothing;
  bool records_trips = true;          // it is the first to run loops with a promised trip count
  std::set<ir::Array> computed = {};  // inputs that the program before it writes
  Orders orders = Orders::Computed;
  Schedule schedule = {};                                   // steps for this program
  bool by_hand = false;                                     // it has steps, or will have: loops stay as written
  std::map<std::string, std::int64_t> expected_sizes = {};  // what estimates of costs are based on
  int threads_per_block = 0;  // of a GPU, of every block that has more than one: a power of two from 32 to 1024;
                              // 0: as fits the loops
  Part first = Part::Bounds, last = Part::Running;
  std::string until = {};           // the pass after which to stop; empty: none
  std::set<std::string> skip = {};  // passes that are left out; those that nothing works without are not
};

}  // namespace loopgrad::transforms
