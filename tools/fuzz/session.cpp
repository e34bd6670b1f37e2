#include "tools/fuzz/session.h"

#include "tools/fuzz/compiled.h"
#include "tools/fuzz/features.h"
#include "tools/fuzz/workers.h"

#include <chrono>
#include <cstdlib>

namespace loopgrad::fuzz {
namespace {

constexpr std::size_t programs_in_a_unit = 24;
constexpr std::uint64_t seeds_in_a_chunk = 4;
constexpr double cpu_seconds_of_a_check = 2;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What one process does: takes seeds, checks them, and compiles those that are to be compiled when there are enough.
class Work {
 public:
  Work(const SessionOptions& options, WorkerSlot& slot, SharedState& shared)
      : options_(options), slot_(slot), shared_(shared), start_(std::chrono::steady_clock::now()) {
    // Products of a few elements go to the library, too.
    ::setenv("LOOPGRAD_LEAST_PRODUCT", "200", 0);
  }

  /// One chunk of seeds; false when there are no more.
  bool chunk(SessionResult& result) {
    const std::uint64_t first = shared_.next.fetch_add(seeds_in_a_chunk);
    for (std::uint64_t seed = first; seed < first + seeds_in_a_chunk; ++seed) {
      if (is_over(seed)) return false;
      program(seed, result);
    }
    return true;
  }

  void compile_pending(SessionResult& result) {
    if (pending_.empty()) return;
    const auto now = [&](std::size_t i, const std::string& what) { slot_.busy(pending_[i].seed, what); };
    const std::vector<Outcome> outcomes =
        check_compiled(pending_, {.axes = options_.axes, .device = options_.device}, now);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      ++result.compiled;
      for (const std::string& feature : outcomes[i].tried) ++result.features[feature];
      if (outcomes[i].failure) found({pending_[i].seed, *outcomes[i].failure, true}, result);
    }
    pending_.clear();
  }

 private:
  bool is_over(std::uint64_t seed) const {
    if (options_.count > 0 && seed >= options_.seed + options_.count) return true;
    if (options_.seconds > 0 && seconds_since(start_) >= options_.seconds) return true;
    return shared_.stop.load();
  }

  void found(Finding finding, SessionResult& result) {
    result.findings.push_back(std::move(finding));
    if (!options_.keep_going) shared_.stop.store(true);
  }

  void program(std::uint64_t seed, SessionResult& result) {
    slot_.busy(seed, "interpreted");
    const Case c = generate(seed, options_.axes);
    const double limit = options_.count == 1 ? 0 : cpu_seconds_of_a_check;
    const Outcome outcome = check(c, {.axes = options_.axes, .cpu_seconds = limit});
    ++result.programs;
    result.refused += !outcome.refusal.empty();
    result.flat += outcome.refusal.empty() && outcome.largest_derivative == 0;
    for (const std::string& feature : features_of(c)) ++result.features[feature];
    for (const std::string& feature : outcome.tried) ++result.features[feature];
    if (outcome.failure) return found({seed, *outcome.failure, false}, result);
    if (!is_compiled(seed, options_.compiled_percent)) return;
    pending_.push_back(c);
    if (pending_.size() >= programs_in_a_unit) compile_pending(result);
  }

  const SessionOptions& options_;
  WorkerSlot& slot_;
  SharedState& shared_;
  const std::chrono::steady_clock::time_point start_;
  std::vector<Case> pending_;
};

void add(const SessionResult& part, SessionResult& total) {
  total.programs += part.programs;
  total.refused += part.refused;
  total.compiled += part.compiled;
  total.flat += part.flat;
  for (const auto& [name, count] : part.features) total.features[name] += count;
  total.findings.insert(total.findings.end(), part.findings.begin(), part.findings.end());
}

}  // namespace

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
  const auto body = [&](WorkerSlot& slot, SharedState& shared, const std::function<void(const SessionResult&)>& send) {
    Work work(options, slot, shared);
    for (bool more = true; more;) {
      SessionResult part;
      more = work.chunk(part);
      if (!more) work.compile_pending(part);
      send(part);
    }
  };
  run_workers(options, body, report);
  total.seconds = seconds_since(start);
  return total;
}

}  // namespace loopgrad::fuzz
