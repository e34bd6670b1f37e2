// Many random programs, by several processes side by side.
#pragma once

#include "tools/fuzz/check.h"
#include "tools/fuzz/compiled.h"

#include <functional>

namespace loopgrad::fuzz {

/// How a program is checked. Tests put others in their place.
struct Checks {
  std::function<Outcome(const Case&, const CheckOptions&)> interpreted = check;
  std::function<std::vector<Outcome>(const std::vector<Case>&, const CompiledOptions&, const CompiledWatch&)> compiled =
      check_compiled;
};

struct SessionOptions {
  std::uint64_t seed = 1;     // of the first program
  std::uint64_t count = 0;    // programs; 0: until the time is over
  double seconds = 0;         // 0: no limit
  int jobs = 1;               // processes
  int compiled_percent = 10;  // of the programs, chosen by their seeds; 0: none is compiled
  bool device = false;        // compiled programs also run on the GPU
  bool keep_going = false;    // after a failure
  Axes axes = {};
  double seconds_of_a_step = 600;          // a process that is busy with one thing for longer is ended
  std::function<bool()> interrupted = {};  // asked twice a second; true ends the session as the limit does
  Checks checks = {};
};

/// For how long a process may be busy with one thing in a session of so many seconds (0: no limit): what hangs is a
/// finding, also in a session that would be over before anyone gave up waiting.
double longest_step(double seconds_of_session);

/// What was found wrong with the program of a seed.
struct Finding {
  std::uint64_t seed = 0;
  Failure failure;
  bool compiled = false;  // found by a compiled run
};

/// What was still being done when the session was over.
struct GivenUp {
  std::uint64_t seed = 0;
  std::string what;
  double seconds = 0;  // for how long already
};

struct SessionResult {
  std::uint64_t programs = 0, refused = 0, compiled = 0;
  std::uint64_t not_finite = 0;    // infinity or NaN is what the program itself computes
  std::uint64_t flat = 0;          // no derivative was other than zero, so that little was compared
  std::uint64_t not_compiled = 0;  // chosen to be compiled, but the session was over or their process had ended
  double seconds = 0;
  bool interrupted = false;
  std::map<std::string, std::uint64_t> features;  // programs by feature
  std::vector<Finding> findings;
  std::vector<GivenUp> given_up;
};

/// `progress` is called now and then with what is done so far. A process that dies, or is busy with one thing for
/// `seconds_of_a_step`, is a finding about the program that it was busy with. When the session is over (by its limit,
/// an interruption or a finding) what is begun has a few seconds to end and is given up then.
SessionResult run_session(const SessionOptions& options, const std::function<void(const SessionResult&)>& progress);

/// Whether the program of a seed is among those that are compiled.
bool is_compiled(std::uint64_t seed, int percent);

/// Checks one program in a process of its own, so that it may crash or hang: nothing when all is well. A failure of the
/// stage "time" when it takes longer than `seconds` or the session is interrupted.
std::optional<Failure> check_apart(const Case& c, const SessionOptions& options, bool compiled, double seconds);

/// Whether a GPU can be used, asked in a process of its own: a driver that is in use does not survive a fork.
bool has_device(std::string& why);

}  // namespace loopgrad::fuzz
