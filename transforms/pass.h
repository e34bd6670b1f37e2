// What passes share.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/pipeline.h"

#include <set>

namespace loopgrad::transforms {

struct PassContext {
  SumMode mode;
  Report& report;
  std::set<std::pair<std::int64_t, std::uint32_t>> planned = {};  // sums with a decision: array and line
  std::set<std::int64_t> introduced = {};                         // arrays that the user's program does not have
  std::set<std::int64_t> started_sums = {};  // arrays in which assign_first_sums let a sum start by an assignment
  unsigned long isl_budget = 0;              // isl operations per nest; 0: the default
  LowerOptions options = {};
};

/// A pass: a function from program to program that adds its decisions to the report.
using PassFunction = ir::Program (*)(const ir::Program&, PassContext&);

struct Pass {
  const char* name;
  PassFunction run;
  const char* why_here;
};

/// The passes of a mode, in the order in which `lower` runs them.
std::vector<Pass> passes(SumMode mode);

}  // namespace loopgrad::transforms
