// What a program notes while it runs, and what it finds again in its next run, for whoever runs it.
#pragma once

#include "dsl/ir/program.h"

#include <limits>
#include <vector>

namespace loopgrad::transforms {

inline constexpr std::int64_t nothing_recorded = std::numeric_limits<std::int64_t>::min();

/// What one element of a record is about.
struct RecordedSite {
  ir::Array array;            // an index of this array; null: trips of a loop
  std::size_t dimension = 0;  // of the array
  std::string loop;
  ir::Expr at_most;  // trips: what was promised, in sizes
  SourceLocation location;
};

/// An in-out array of the program that the runtime owns: i64, as long as `sites`.
struct Record {
  ir::Array array;  // null: nothing is recorded
  std::vector<RecordedSite> sites;
};

/// In-out arrays of the program that the runtime owns, in which it leaves what follows from `deciding` alone, and a
/// size that is 1 where they are to be computed again, and 2 where the program shall see whether: see keep_orders.h.
struct KeptOrders {
  std::vector<ir::Array> arrays;  // empty: nothing is kept
  ir::Symbol stale;
  std::vector<ir::Array> deciding;
  bool compares = false;  // 2 is possible
};

}  // namespace loopgrad::transforms
