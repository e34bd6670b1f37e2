#include "tools/fuzz/shrink_finding.h"

#include "tools/fuzz/shrinker.h"

#include <algorithm>
#include <chrono>

namespace loopgrad::fuzz {
namespace {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

constexpr double seconds_over_the_limit = 5;

}  // namespace

ShrinkLimits shrink_limits(const SessionOptions& options, double seconds) {
  ShrinkLimits limits;
  if (options.seconds <= 0) return limits;
  limits.in_all = std::clamp(options.seconds - seconds, seconds_over_the_limit, limits.in_all);
  limits.of_a_finding = std::min(limits.of_a_finding, limits.in_all);
  return limits;
}

std::vector<SmallerProgram> shrink_findings(const std::vector<Finding>& findings, const SessionOptions& options,
                                            const ShrinkLimits& limits) {
  const Stopwatch all;
  const auto interrupted = [&] { return options.interrupted && options.interrupted(); };
  std::vector<SmallerProgram> smaller;
  for (const Finding& finding : findings) {
    const double given = std::min(limits.of_a_finding, limits.in_all - all.seconds());
    if (given <= 0 || interrupted()) break;
    const Stopwatch one;
    const auto left = [&] { return given - one.seconds(); };
    // A crash may be found at the stage at which it happened; apart, it is one of that process.
    const bool died = finding.failure.message.starts_with("the process died");
    const auto fails_alike = [&](const Case& candidate) {
      const auto failure =
          check_apart(candidate, options, finding.compiled, std::min(limits.of_a_check, std::max(0.0, left())));
      return failure && failure->stage == (died ? "crash" : finding.failure.stage);
    };
    const Case original = generate(finding.seed, options.axes);
    smaller.push_back(
        {finding.seed, original, shrink(original, fails_alike, 2000, [&] { return left() <= 0 || interrupted(); })});
  }
  return smaller;
}

}  // namespace loopgrad::fuzz
