#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

Program build() {
  ProgramBuilder p("matmul");
  auto m = p.size("m"), n = p.size("n"), k = p.size("k");
  auto a = p.input<float>("a", {m, k});
  auto b = p.input<float>("b", {k, n});
  auto c = p.output<float>("c", {m, n});
  for (auto i : p.loop("i", 0, m)) {
    for (auto j : p.loop("j", 0, n)) {
      c(i, j) = 0.0f;
      for (auto l : p.loop("l", 0, k)) c(i, j) += a(i, l) * b(l, j);
    }
  }
  return p.build();
}

}  // namespace

ProgramEntry matmul() {
  return {.name = "matmul",
          .summary = "c = a b, dense",
          .build = build,
          .sizes = {{"m", 512}, {"n", 512}, {"k", 512}},
          .check_sizes = {{"m", 7}, {"n", 11}, {"k", 5}},
          .wrt = {"a", "b"}};
}

}  // namespace loopgrad::programs
