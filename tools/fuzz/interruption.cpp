#include "tools/fuzz/interruption.h"

#include <csignal>
#include <cstddef>

namespace loopgrad::fuzz {
namespace {

constexpr std::array<int, 3> watched = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t first_signal = 0;

extern "C" void remember(int signal) {
  if (first_signal == 0) first_signal = signal;
}

}  // namespace

Interruption::Interruption() {
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;  // what is being read is read to its end
  ::sigemptyset(&action.sa_mask);
  for (std::size_t k = 0; k < watched.size(); ++k) ::sigaction(watched[k], &action, &before_[k]);
}

Interruption::~Interruption() {
  for (std::size_t k = 0; k < watched.size(); ++k) ::sigaction(watched[k], &before_[k], nullptr);
}

int Interruption::signal() { return first_signal; }

}  // namespace loopgrad::fuzz
