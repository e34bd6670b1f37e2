#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

Program build() {
  ProgramBuilder p("conv1d");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {n + k - 1});
  auto w = p.input<float>("w", {k});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    for (auto j : p.loop("j", 0, k)) y(i) += x(i + j) * w(j);
  }
  return p.build();
}

}  // namespace

ProgramEntry conv1d() {
  return {.name = "conv1d",
          .summary = "y[i] = sum_j x[i+j] w[j]",
          .build = build,
          .sizes = {{"n", 1 << 20}, {"k", 64}},
          .check_sizes = {{"n", 37}, {"k", 5}},
          .wrt = {"x", "w"}};
}

}  // namespace loopgrad::programs
