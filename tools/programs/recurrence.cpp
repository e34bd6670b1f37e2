#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

Program build() {
  ProgramBuilder p("recurrence");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n});
  auto b = p.input<float>("b", {n});
  auto x = p.output<float>("x", {n});
  x(0) = b(0);
  for (auto i : p.loop("i", 1, n)) x(i) = a(i) * x(i - 1) + b(i);
  return p.build();
}

}  // namespace

ProgramEntry recurrence() {
  return {.name = "recurrence",
          .summary = "x[i] = a[i] x[i-1] + b[i], first order",
          .build = build,
          .sizes = {{"n", 1 << 20}},
          .check_sizes = {{"n", 23}},
          .wrt = {"a", "b"}};
}

}  // namespace loopgrad::programs
