#include "tools/fuzz/session.h"

#include "tools/fuzz/features.h"
#include "tools/fuzz/workers.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace loopgrad::fuzz {
namespace {

// NVRTC takes its time for each kernel whatever else is in a unit, and does all of it again when one of its programs
// wants another form of kernels.
constexpr std::size_t programs_in_a_unit = 24, programs_in_a_device_unit = 4;
constexpr double cpu_seconds_of_a_check = 2;
constexpr double expected_seconds_to_compile = 2;  // a program, until it is known

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What one process does: takes seeds, checks them, and compiles those that are to be compiled when there are enough.
class Work {
 public:
  using Time = std::chrono::steady_clock::time_point;
  Work(const SessionOptions& options, Time start, WorkerSlot& slot, SharedState& shared, const SendPart& send)
      : options_(options), slot_(slot), shared_(shared), send_(send), start_(start) {
    // Products of a few elements go to the library, too.
    ::setenv("LOOPGRAD_LEAST_PRODUCT", "200", 0);
  }

  /// All seeds that are left. True when this process can do no more although some are.
  bool run() {
    const std::size_t unit = options_.device ? programs_in_a_device_unit : programs_in_a_unit;
    for (;;) {
      const std::uint64_t seed = shared_.next.fetch_add(1);
      if (is_over() || (options_.count > 0 && seed >= options_.seed + options_.count)) break;
      program(seed);
      // Before the end, as much as there will be time for.
      const bool last_chance = options_.seconds > 0 && time_left() < 1.5 * expected_seconds();
      if (pending_.size() >= unit || (last_chance && !pending_.empty())) compile_pending();
      if (is_spoilt_) return true;
    }
    compile_pending();
    return is_spoilt_;
  }

 private:
  double time_left() const { return options_.seconds - seconds_since(start_); }
  double expected_seconds() const { return static_cast<double>(pending_.size()) * seconds_to_compile_; }
  bool is_over() const { return shared_.stop.load() || (options_.seconds > 0 && time_left() <= 0); }

  void found(Finding finding, SessionResult& result) {
    result.findings.push_back(std::move(finding));
    if (!options_.keep_going) shared_.stop.store(true);
  }

  void program(std::uint64_t seed) {
    slot_.busy(seed, interpreting);
    SessionResult result;
    const Case c = generate(seed, options_.axes);
    const double limit = options_.count == 1 ? 0 : cpu_seconds_of_a_check;
    const Outcome outcome = options_.checks.interpreted(c, {.axes = options_.axes, .cpu_seconds = limit});
    ++result.programs;
    result.refused += !outcome.refusal.empty();
    result.not_finite += !outcome.not_finite.empty();
    result.flat += outcome.refusal.empty() && outcome.not_finite.empty() && outcome.largest_derivative == 0;
    for (const std::string& feature : features_of(c)) ++result.features[feature];
    for (const std::string& feature : outcome.tried) ++result.features[feature];
    if (outcome.failure) found({seed, *outcome.failure, false}, result);
    else if (outcome.not_finite.empty() && is_compiled(seed, options_.compiled_percent)) pending_.push_back(c);
    slot_.pending = pending_.size();
    send_(result);
  }

  void compile_pending() {
    if (pending_.empty()) return;
    const auto start = std::chrono::steady_clock::now();
    const CompiledWatch watch{[&](std::size_t i, const std::string& what) { slot_.busy(pending_[i].seed, what); },
                              [&] { return is_over(); }};
    const std::vector<Outcome> outcomes =
        options_.checks.compiled(pending_, {.axes = options_.axes, .device = options_.device}, watch);
    SessionResult result;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      ++(outcomes[i].unfinished ? result.not_compiled : result.compiled);
      is_spoilt_ |= outcomes[i].unfinished;
      for (const std::string& feature : outcomes[i].tried) ++result.features[feature];
      if (outcomes[i].failure) found({pending_[i].seed, *outcomes[i].failure, true}, result);
    }
    seconds_to_compile_ = seconds_since(start) / static_cast<double>(pending_.size());
    pending_.clear();
    slot_.pending = 0;
    send_(result);
  }

  const SessionOptions& options_;
  WorkerSlot& slot_;
  SharedState& shared_;
  const SendPart& send_;
  const Time start_;
  std::vector<Case> pending_;
  double seconds_to_compile_ = expected_seconds_to_compile;
  bool is_spoilt_ = false;  // the GPU takes nothing more from this process
};

void add(const SessionResult& part, SessionResult& total) {
  total.programs += part.programs;
  total.refused += part.refused;
  total.compiled += part.compiled;
  total.not_finite += part.not_finite;
  total.flat += part.flat;
  total.not_compiled += part.not_compiled;
  for (const auto& [name, count] : part.features) total.features[name] += count;
  total.findings.insert(total.findings.end(), part.findings.begin(), part.findings.end());
  total.given_up.insert(total.given_up.end(), part.given_up.begin(), part.given_up.end());
}

}  // namespace

double longest_step(double seconds_of_session) {
  const double without_limit = SessionOptions().seconds_of_a_step;
  return seconds_of_session > 0 ? std::clamp(seconds_of_session / 2, 60.0, without_limit) : without_limit;
}

bool is_compiled(std::uint64_t seed, int percent) {
  std::uint64_t mixed = (seed + 1) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 31;
  return static_cast<int>(mixed % 100) < percent;
}

SessionResult run_session(const SessionOptions& options, const std::function<void(const SessionResult&)>& progress) {
  const auto start = std::chrono::steady_clock::now();
  SessionResult total;
  const auto report = [&](const SessionResult& part) {
    add(part, total);
    total.seconds = seconds_since(start);
    progress(total);
  };
  run_workers(
      options,
      [&](WorkerSlot& slot, SharedState& shared, const SendPart& send) {
        return Work(options, start, slot, shared, send).run();
      },
      report);
  total.interrupted = options.interrupted && options.interrupted();
  total.seconds = seconds_since(start);
  return total;
}

}  // namespace loopgrad::fuzz
