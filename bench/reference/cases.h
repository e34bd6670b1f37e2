// What is measured: programs with sizes, from a file that the peers' scripts read too.
#pragma once

#include <loopgrad/arrays.h>
#include <loopgrad/main.h>

#include <optional>
#include <string>
#include <vector>

namespace loopgrad::bench {

struct Case {
  const ProgramEntry* program;
  Sizes sizes;
  /// What the restructured variant must reach: at most `hand` times the hand-written time, forward and backward each,
  /// and at least `naive` times faster than the naive tape, both together.
  std::optional<double> hand, naive;
};

/// The cases of a file like bench/cases.json, those of the given programs only, or of all if none is given. Throws
/// UsageError for a file that cannot be read, an unknown program, and sizes that are not the program's.
std::vector<Case> read_cases(const std::string& file, const std::vector<ProgramEntry>& entries,
                             const std::vector<std::string>& programs);

}  // namespace loopgrad::bench
