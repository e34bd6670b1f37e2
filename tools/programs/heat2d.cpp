#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

/// Heat with a cubic sink, u' = u + dt (lap u - u^3), T explicit steps in place of `u`; its border stays as it is.
Program build() {
  ProgramBuilder p("heat2d");
  auto n = p.size("n"), m = p.size("m"), steps = p.size("T");
  auto u0 = p.input<float>("u0", {n, m});
  auto u = p.output<float>("u", {n, m});
  auto next = p.local<float>("next", {n, m});
  const float dt = 0.1f;
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) u(i, j) = u0(i, j);
  for ([[maybe_unused]] auto t : p.loop("t", 0, steps)) {
    for (auto i : p.loop("i", 1, n - 1)) {
      for (auto j : p.loop("j", 1, m - 1)) {
        auto lap = u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1) - 4 * u(i, j);
        next(i, j) = u(i, j) + dt * (lap - u(i, j) * u(i, j) * u(i, j));
      }
    }
    for (auto i : p.loop("i", 1, n - 1))
      for (auto j : p.loop("j", 1, m - 1)) u(i, j) = next(i, j);
  }
  return p.build();
}

}  // namespace

ProgramEntry heat2d() {
  return {.name = "heat2d",
          .summary = "T steps of u' = u + dt (lap u - u^3) on a grid, keeping the last",
          .build = build,
          .sizes = {{"n", 1024}, {"m", 1024}, {"T", 10}},
          .check_sizes = {{"n", 7}, {"m", 9}, {"T", 3}},
          .wrt = {"u0"}};
}

}  // namespace loopgrad::programs
