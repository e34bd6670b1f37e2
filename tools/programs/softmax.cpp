#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

Program build() {
  ProgramBuilder p("softmax");
  auto rows = p.size("rows"), cols = p.size("cols");
  auto x = p.input<float>("x", {rows, cols});
  auto y = p.output<float>("y", {rows, cols});
  for (auto r : p.loop("r", 0, rows)) {
    auto largest = p.scalar<float>("largest");
    largest = x(r, 0);
    for (auto c : p.loop("c", 1, cols)) largest.max_with(x(r, c));
    auto sum = p.scalar<float>("sum");
    auto e = p.local<float>("e", {cols});
    sum = 0.0f;
    for (auto c : p.loop("c", 0, cols)) {
      e(c) = exp(x(r, c) - largest);
      sum += e(c);
    }
    for (auto c : p.loop("c", 0, cols)) y(r, c) = e(c) / sum;
  }
  return p.build();
}

}  // namespace

ProgramEntry softmax() {
  return {.name = "softmax",
          .summary = "softmax of every row",
          .build = build,
          .sizes = {{"rows", 4096}, {"cols", 1024}},
          .check_sizes = {{"rows", 5}, {"cols", 13}},
          .wrt = {"x"}};
}

}  // namespace loopgrad::programs
