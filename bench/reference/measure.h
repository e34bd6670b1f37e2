// Times and differences of all contestants of one case.
#pragma once

#include "bench/reference/cases.h"
#include "bench/reference/contestants.h"

#include <functional>
#include <string>
#include <vector>

namespace loopgrad::bench {

struct MeasureOptions {
  int rounds = 7;                 // every contestant runs in every round, so that all see the same noise
  double tape_limit = 6ll << 30;  // bytes: a naive tape that needs more is not run
  std::uint64_t seed = 1;
  std::vector<std::string> only = {};  // names of contestants; empty: all
};

struct Row {
  std::string name;
  double forward_ms = 0, backward_ms = 0;  // medians
  int runs = 0;                            // that the medians are of
  double error = 0;                        // largest relative difference from the first row, over all results
  std::string skipped = {};                // why it did not run; then nothing above counts
};

struct Result {
  const Case* measured;
  std::vector<Row> rows;                         // the hand-written one first if there is one
  double forward_bytes = 0, backward_bytes = 0;  // that must move: every array once
  double floor_ms = 0;  // of forward and backward: bytes by the rate of a copy, or operations by that of the cores
};

/// Runs all contestants of a case: once to compare their results, then by rounds to time them. `step` is told what
/// runs now.
Result measure(const Case& c, const MeasureOptions& options, const std::function<void(const std::string&)>& step);

const Row* find_row(const Result& result, const std::string& name);

}  // namespace loopgrad::bench
