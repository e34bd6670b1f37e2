// Processes side by side that report parts of a session, and whose death is a finding.
#pragma once

#include "tools/fuzz/session.h"

#include <atomic>
#include <functional>

namespace loopgrad::fuzz {

/// What a process is busy with, where the others can read it.
struct WorkerSlot {
  std::atomic<std::uint64_t> seed{0};
  std::atomic<std::int64_t> since{0};  // seconds of the steady clock; 0: idle
  char what[120] = {};
  void busy(std::uint64_t on, const std::string& with);
};

struct SharedState {
  std::atomic<std::uint64_t> next{0};  // seed that nobody has taken yet
  std::atomic<bool> stop{false};
};

using SendPart = std::function<void(const SessionResult&)>;
using Worker = std::function<void(WorkerSlot&, SharedState&, const SendPart& send)>;

/// Runs `worker` in `options.jobs` processes, or here when that is 1, and hands what they send to `report`.
void run_workers(const SessionOptions& options, const Worker& worker, const SendPart& report);

}  // namespace loopgrad::fuzz
