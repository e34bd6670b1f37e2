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

/// The least time of one call of `f` within about a tenth of a second, after one call to warm up.
template <class F>
double best_time(F&& f) {
  f();
  double best = 1e30;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    f();
    best = std::min(best, seconds_since(start));
  } while (seconds_since(begin) < 0.1);
  return best;
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
  std::unique_ptr<char[]> from(new char[part * static_cast<std::size_t>(threads)]);
  std::unique_ptr<char[]> to(new char[part * static_cast<std::size_t>(threads)]);
  auto each = [&](auto&& work) {
#pragma omp parallel num_threads(threads)
    work(static_cast<std::size_t>(omp_get_thread_num()) * part);
  };
  each([&](std::size_t begin) { std::memset(from.get() + begin, 1, part); });
  const int repeats = std::max(1, static_cast<int>(4e6 / static_cast<double>(part)));
  double time = best_time([&] {
    each([&](std::size_t begin) {
      for (int r = 0; r < repeats; ++r) {
        std::memcpy(to.get() + begin, from.get() + begin, part);
        asm volatile("" ::: "memory");
      }
    });
  });
  return 2.0 * static_cast<double>(part) * threads * repeats / time;
}

double arithmetic_rate(int threads) {
  volatile float sink = 0;
  double time = best_time([&] {
    float sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    sum += multiply_add(0.999f, 0.001f);
    sink = sum;
  });
  return 2.0 * kChains * kRounds * threads / time;
}

}  // namespace

Ceilings measure_ceilings(int threads, double working_set) {
  if (threads <= 0) threads = omp_get_max_threads();
  auto bytes = static_cast<std::size_t>(std::clamp(working_set, 1e5, 1e9));
  return {copy_rate(threads, bytes), arithmetic_rate(threads)};
}

}  // namespace loopgrad::cli
