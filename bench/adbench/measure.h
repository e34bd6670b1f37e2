// Times as ADBench takes them.
#pragma once

#include <algorithm>
#include <chrono>

namespace adbench {

struct MeasureOptions {
  double minimum_measurable_time = 0.5, time_limit = 10;  // seconds
  int runs = 10;
};

/// The least time of a call, in seconds: of samples of as many calls (a power of two) as take longer than the minimum
/// measurable time, until there are `runs` samples or they have taken longer than the limit together.
template <class Run>
double shortest_time(const MeasureOptions& options, const Run& run) {
  const auto seconds = [&](long calls) {
    const auto start = std::chrono::steady_clock::now();
    for (long i = 0; i < calls; ++i) run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  long calls = 1;
  double total = seconds(calls);
  while (total <= options.minimum_measurable_time && calls < (1l << 30)) total = seconds(calls *= 2);
  double best = total / static_cast<double>(calls);
  for (int sample = 1; sample < options.runs && total < options.time_limit; ++sample) {
    const double time = seconds(calls);
    best = std::min(best, time / static_cast<double>(calls));
    total += time;
  }
  return best;
}

}  // namespace adbench
