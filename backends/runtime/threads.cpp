#include "backends/runtime/threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace loopgrad::backend {
namespace {

/// How many forks lie between this process and the first one.
std::atomic<unsigned> forks{0};

void note_fork() { forks.fetch_add(1, std::memory_order_relaxed); }

/// The stack that libgomp gives to its threads, or 0 for the system's choice: a number and a unit, else of kilobytes.
std::size_t openmp_stack_bytes() {
  const char* text = std::getenv("OMP_STACKSIZE");
  if (!text) text = std::getenv("GOMP_STACKSIZE");
  if (!text) return 0;
  char* unit = nullptr;
  const unsigned long long number = std::strtoull(text, &unit, 10);
  switch (*unit) {
    case 'b':
    case 'B': return number;
    case 'm':
    case 'M': return number << 20;
    case 'g':
    case 'G': return number << 30;
    default: return number << 10;
  }
}

void* pass_gate(void* gate) {
  const std::lock_guard wait(*static_cast<std::mutex*>(gate));
  return nullptr;
}

/// How many of `wanted` threads can be had beside those that there are: half of what the system makes where that is
/// less, as their stacks leave no memory for anything else, and somebody else may want threads too.
int make_threads(int wanted) {
  std::vector<pthread_t> made;
  made.reserve(static_cast<std::size_t>(wanted));
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return 0;
  if (const std::size_t bytes = openmp_stack_bytes()) pthread_attr_setstacksize(&attributes, bytes);
  std::mutex gate;
  {
    const std::lock_guard closed(gate);  // so that all of them are there at once
    pthread_t thread;
    while (static_cast<int>(made.size()) < wanted && pthread_create(&thread, &attributes, pass_gate, &gate) == 0)
      made.push_back(thread);
  }
  for (const pthread_t thread : made) pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  const auto count = static_cast<int>(made.size());
  return count == wanted ? wanted : count / 2;
}

/// The threads of OpenMP that wait for the next run of this one, which counts.
struct Team {
  int threads = 1;
  unsigned forks = 0;
};
thread_local Team team;

}  // namespace

int available_threads(int wanted) {
  static const int registered = pthread_atfork(nullptr, nullptr, note_fork);
  static_cast<void>(registered);
  if (wanted <= 1) return 1;
  const unsigned now = forks.load(std::memory_order_relaxed);
  if (team.threads > 1 && team.forks != now) return 1;
  if (wanted > team.threads) wanted = team.threads + make_threads(wanted - team.threads);
  team = {wanted, now};  // libgomp ends those that a smaller team leaves over
  return wanted;
}

}  // namespace loopgrad::backend
