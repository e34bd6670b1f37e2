// Many random programs, by several processes side by side.
#pragma once

#include "tools/fuzz/check.h"

#include <functional>

namespace loopgrad::fuzz {

struct SessionOptions {
  std::uint64_t seed = 1;     // of the first program
  std::uint64_t count = 0;    // programs; 0: until the time is over
  double seconds = 0;         // 0: no limit
  int jobs = 1;               // processes; 1: this one
  int compiled_percent = 10;  // of the programs, chosen by their seeds; 0: none is compiled
  bool device = false;        // compiled programs also run on the GPU
  bool keep_going = false;    // after a failure
  Axes axes = {};
};

/// What was found wrong with the program of a seed.
struct Finding {
  std::uint64_t seed = 0;
  Failure failure;
  bool compiled = false;  // found by a compiled run
};

struct SessionResult {
  std::uint64_t programs = 0, refused = 0, compiled = 0;
  std::uint64_t flat = 0;  // no derivative was other than zero, so that little was compared
  double seconds = 0;
  std::map<std::string, std::uint64_t> features;  // programs by feature
  std::vector<Finding> findings;
};

/// `progress` is called now and then with what is done so far. A process that dies or does not come back for ten
/// minutes is a finding about the program that it was busy with.
SessionResult run_session(const SessionOptions& options, const std::function<void(const SessionResult&)>& progress);

/// Whether the program of a seed is among those that are compiled.
bool is_compiled(std::uint64_t seed, int percent);

/// Checks one program in a process of its own, so that it may crash or hang: nothing when all is well.
std::optional<Failure> check_apart(const Case& c, const SessionOptions& options, bool compiled, double seconds);

/// Whether a GPU can be used, asked in a process of its own: a driver that is in use does not survive a fork.
bool has_device(std::string& why);

}  // namespace loopgrad::fuzz
