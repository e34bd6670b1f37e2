// Processes side by side that report parts of a session, and whose death is a finding.
#pragma once

#include "tools/fuzz/session.h"

#include <atomic>
#include <functional>

namespace loopgrad::fuzz {

/// What a process says that it is busy with while it interprets a program.
inline constexpr const char* interpreting = "interpreted";

/// What a process is busy with, where the others can read it.
struct WorkerSlot {
  std::atomic<std::uint64_t> seed{0};
  std::atomic<double> since{0};           // seconds of the steady clock; 0: idle
  std::atomic<std::uint64_t> pending{0};  // programs that wait for being compiled, or are
  char what[120] = {};
  void busy(std::uint64_t on, const std::string& with);
};

struct SharedState {
  std::atomic<std::uint64_t> next{0};  // seed that nobody has taken yet
  std::atomic<bool> stop{false};
};

using SendPart = std::function<void(const SessionResult&)>;
/// Works until nothing is left; true when another process must go on in its place.
using Worker = std::function<bool(WorkerSlot&, SharedState&, const SendPart& send)>;

/// Runs `worker` in `options.jobs` processes and hands what they send to `report`. Sets `stop` when the session is
/// over, and ends those that do not stop within a few seconds.
void run_workers(const SessionOptions& options, const Worker& worker, const SendPart& report);

}  // namespace loopgrad::fuzz
