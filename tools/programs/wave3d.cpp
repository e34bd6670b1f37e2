#include "tools/programs/programs.h"
#include "tools/support/random.h"

namespace loopgrad::programs {
namespace {

/// T steps of u+ = 2u - u- + 0.1 c lap(u), from rest, inside a border of zeros that the arrays include.
Program build() {
  ProgramBuilder p("wave3d");
  auto n = p.size("n"), steps = p.size("T");
  auto u0 = p.input<float>("u0", {n, n, n});
  auto c = p.input<float>("c", {n, n, n});
  auto last = p.output<float>("last", {n, n, n});
  auto u = p.local<float>("u", {steps + 2, n + 2, n + 2, n + 2});
  for (auto t : p.loop("t", 0, steps + 2)) {
    for (auto i : p.loop("i", 0, n + 2)) {
      for (auto j : p.loop("j", 0, n + 2)) {
        for (auto side : {Value(0), n + 1}) {
          u(t, side, i, j) = 0.0f;
          u(t, i, side, j) = 0.0f;
          u(t, i, j, side) = 0.0f;
        }
      }
    }
  }
  for (auto t : p.loop("t", 0, 2))
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n))
        for (auto k : p.loop("k", 0, n)) u(t, i + 1, j + 1, k + 1) = u0(i, j, k);
  for (auto t : p.loop("t", 1, steps + 1)) {
    for (auto i : p.loop("i", 1, n + 1)) {
      for (auto j : p.loop("j", 1, n + 1)) {
        for (auto k : p.loop("k", 1, n + 1)) {
          auto lap = u(t, i - 1, j, k) + u(t, i + 1, j, k) + u(t, i, j - 1, k) + u(t, i, j + 1, k) + u(t, i, j, k - 1) +
                     u(t, i, j, k + 1) - 6 * u(t, i, j, k);
          u(t + 1, i, j, k) = 2 * u(t, i, j, k) - u(t - 1, i, j, k) + 0.1f * c(i - 1, j - 1, k - 1) * lap;
        }
      }
    }
  }
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n))
      for (auto k : p.loop("k", 0, n)) last(i, j, k) = u(steps + 1, i + 1, j + 1, k + 1);
  return p.build();
}

/// Speeds are positive.
void fill(const Sizes&, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  HostArray& c = arrays.at("c");
  for (std::int64_t i = 0; i < c.size(); ++i) c.set(i, random.uniform(0.5, 1.5));
}

}  // namespace

ProgramEntry wave3d() {
  return {.name = "wave3d",
          .summary = "T steps of the wave equation in a cube, by the initial state and the speeds",
          .build = build,
          .sizes = {{"n", 128}, {"T", 8}},
          .check_sizes = {{"n", 4}, {"T", 3}},
          .wrt = {"u0", "c"},
          .fill = fill};
}

}  // namespace loopgrad::programs
