#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

Program build() {
  ProgramBuilder p("layernorm");
  auto rows = p.size("rows"), cols = p.size("cols");
  auto x = p.input<float>("x", {rows, cols});
  auto g = p.input<float>("g", {cols});
  auto b = p.input<float>("b", {cols});
  auto y = p.output<float>("y", {rows, cols});
  for (auto r : p.loop("r", 0, rows)) {
    auto mean = p.scalar<float>("mean"), variance = p.scalar<float>("variance"), scale = p.scalar<float>("scale");
    mean = 0.0f;
    for (auto c : p.loop("c", 0, cols)) mean += x(r, c);
    mean /= cast<float>(cols);
    variance = 0.0f;
    for (auto c : p.loop("c", 0, cols)) variance += (x(r, c) - mean) * (x(r, c) - mean);
    scale = 1.0f / sqrt(variance / cast<float>(cols) + 1e-5f);
    for (auto c : p.loop("c", 0, cols)) y(r, c) = (x(r, c) - mean) * scale * g(c) + b(c);
  }
  return p.build();
}

}  // namespace

ProgramEntry layernorm() {
  return {.name = "layernorm",
          .summary = "every row to mean 0 and variance 1, then scaled and shifted by column",
          .build = build,
          .sizes = {{"rows", 4096}, {"cols", 1024}},
          .check_sizes = {{"rows", 5}, {"cols", 13}},
          .wrt = {"x", "g", "b"}};
}

}  // namespace loopgrad::programs
