// The programs of findings, made smaller while there is time.
#pragma once

#include "tools/fuzz/session.h"

namespace loopgrad::fuzz {

struct ShrinkLimits {
  double of_a_finding = 30, in_all = 60;  // seconds
  double of_a_check = 30;                 // for one candidate
};

/// The limits for a session that took `seconds` of those that it was given: what it stopped early is used, and it may
/// take a few seconds more.
ShrinkLimits shrink_limits(const SessionOptions& options, double seconds);

struct SmallerProgram {
  std::uint64_t seed = 0;
  Case original, smaller;
};

/// The first findings with smaller programs that fail in the same way, in processes of their own; as many of them as
/// the limits allow. Ends when the session is interrupted.
std::vector<SmallerProgram> shrink_findings(const std::vector<Finding>& findings, const SessionOptions& options,
                                            const ShrinkLimits& limits);

}  // namespace loopgrad::fuzz
