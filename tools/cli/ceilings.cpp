#include "tools/cli/ceilings.h"

#include <omp.h>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

namespace loopgrad::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Work per second of `threads` threads that each repeat `f(thread)` for about a tenth of a second: the sum of what
/// each one reached at its best, so that a thread that has to wait for a core now and then does not hide what the
/// machine can.
template <class F>
double best_rate(int threads, double work, F&& f) {
  double rate = 0;
#pragma omp parallel num_threads(threads) reduction(+ : rate)
  {
    const int thread = omp_get_thread_num();
    double best = 1e30;
    f(thread);
#pragma omp barrier
    const auto begin = Clock::now();
    do {
      const auto start = Clock::now();
      f(thread);
      best = std::min(best, seconds_since(start));
    } while (seconds_since(begin) < 0.1);
    rate += work / best;
  }
  return rate;
}

// One thread's share of the arithmetic: enough independent chains to fill the pipelines of any current core, in as wide
// vectors as the machine has.
constexpr int kChains = 160;
constexpr int kRounds = 100000;

#if defined(__x86_64__)
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
__attribute__((noinline, optimize("O3", "fast-math"))) float
multiply_add(float a, float b) {
  float chain[kChains];
  for (int c = 0; c < kChains; ++c) chain[c] = static_cast<float>(c);
  for (int r = 0; r < kRounds; ++r)
    for (int c = 0; c < kChains; ++c) chain[c] = chain[c] * a + b;
  float sum = 0;
  for (int c = 0; c < kChains; ++c) sum += chain[c];
  return sum;
}

double copy_rate(int threads, std::size_t bytes) {
  const std::size_t part = bytes / 2 / static_cast<std::size_t>(threads) / 64 * 64 + 64;
  const std::size_t all = part * static_cast<std::size_t>(threads);
  std::unique_ptr<char[]> from(new char[all]), to(new char[all]);
  const int repeats = std::max(1, static_cast<int>(4e6 / static_cast<double>(part)));
  auto copy = [&](int thread) {
    const std::size_t begin = static_cast<std::size_t>(thread) * part;
    for (int r = 0; r < repeats; ++r) {
      std::memcpy(to.get() + begin, from.get() + begin, part);
      asm volatile("" ::: "memory");  // each copy happens
    }
  };
#pragma omp parallel num_threads(threads)
  std::memset(from.get() + static_cast<std::size_t>(omp_get_thread_num()) * part, 1, part);
  return best_rate(threads, 2.0 * static_cast<double>(part) * repeats, copy);
}

double arithmetic_rate(int threads) {
  volatile float a = 0.999f, b = 0.001f;  // read anew for each call, so that each call happens
  return best_rate(threads, 2.0 * kChains * kRounds, [&](int) {
    volatile float sink = multiply_add(a, b);
    (void)sink;
  });
}

}  // namespace

Ceilings measure_ceilings(int threads, double working_set) {
  if (threads <= 0) threads = omp_get_max_threads();
  auto bytes = static_cast<std::size_t>(std::clamp(working_set, 1e5, 1e9));
  return {copy_rate(threads, bytes), arithmetic_rate(threads)};
}

}  // namespace loopgrad::cli
