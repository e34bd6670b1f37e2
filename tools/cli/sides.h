// Which way a program goes: what it compares, and on which side of each kink and jump a run is.
#pragma once

#include "tools/cli/directions.h"

namespace loopgrad::cli {

/// A place where a program may have a kink or a jump.
struct Side {
  std::string what;      // "the branch", "max", "abs", "floor", ...
  SourceLocation where;  // the user's line
};

/// Runs that note the sides they take.
class Sides {
 public:
  explicit Sides(const Program& program);
  /// One number for each place: equal in two runs that took the same side there every time.
  std::vector<std::int64_t> taken(const Arrays& inputs, const Sizes& sizes) const;
  const std::vector<Side>& places() const { return places_; }

 private:
  std::vector<Side> places_;
  std::string noted_;  // the array of these numbers
  Program program_;
  Executable run_;
};

/// The places where a program changes sides along a direction, between the inputs and either end of the widest
/// difference.
std::vector<Side> sides_across(const Sides& sides, const Problem& problem, const Direction& direction);

/// "max at file:line, the branch at file:line", each once.
std::string text_of(const std::vector<Side>& sides);

}  // namespace loopgrad::cli
