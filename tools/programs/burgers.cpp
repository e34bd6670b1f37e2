#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

/// T explicit steps of u_t + u (u_x + u_y) = 0, upwind: differences look to where the flow comes from. The border stays
/// as it is.
Program build() {
  ProgramBuilder p("burgers");
  auto n = p.size("n"), m = p.size("m"), steps = p.size("T");
  auto u0 = p.input<float>("u0", {n, m});
  auto last = p.output<float>("last", {n, m});
  auto u = p.local<float>("u", {steps + 1, n, m});
  const float dt = 0.1f;
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) u(0, i, j) = u0(i, j);
  for (auto t : p.loop("t", 0, steps)) {
    for (auto i : p.loop("i", 0, n))
      for (auto side : {Value(0), m - 1}) u(t + 1, i, side) = u(t, i, side);
    for (auto j : p.loop("j", 1, m - 1))
      for (auto side : {Value(0), n - 1}) u(t + 1, side, j) = u(t, side, j);
    for (auto i : p.loop("i", 1, n - 1)) {
      for (auto j : p.loop("j", 1, m - 1)) {
        auto forward = min(u(t, i, j), 0), backward = max(u(t, i, j), 0);
        auto x = backward * (u(t, i, j) - u(t, i - 1, j)) + forward * (u(t, i + 1, j) - u(t, i, j));
        auto y = backward * (u(t, i, j) - u(t, i, j - 1)) + forward * (u(t, i, j + 1) - u(t, i, j));
        u(t + 1, i, j) = u(t, i, j) - dt * (x + y);
      }
    }
  }
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) last(i, j) = u(steps, i, j);
  return p.build();
}

}  // namespace

ProgramEntry burgers() {
  return {.name = "burgers",
          .summary = "T upwind steps of the Burgers equation on a grid, keeping the last",
          .build = build,
          .sizes = {{"n", 1024}, {"m", 1024}, {"T", 10}},
          .check_sizes = {{"n", 7}, {"m", 6}, {"T", 3}},
          .wrt = {"u0"}};
}

}  // namespace loopgrad::programs
