// What a program notes while it runs, for whoever runs it.
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

}  // namespace loopgrad::transforms
