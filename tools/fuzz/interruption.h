// Being told to stop, by the keyboard, by `kill` or by `timeout`.
#pragma once

#include <signal.h>

#include <array>

namespace loopgrad::fuzz {

/// While it lives, SIGINT, SIGTERM and SIGHUP do not end the process but are remembered. One at a time.
class Interruption {
 public:
  Interruption();
  Interruption(const Interruption&) = delete;
  ~Interruption();
  /// The first signal that came, or 0.
  static int signal();

 private:
  std::array<struct sigaction, 3> before_;
};

}  // namespace loopgrad::fuzz
