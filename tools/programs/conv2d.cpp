#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

/// A layer of square filters with an odd side R; zeros around the image keep its size ("same" padding).
Program build() {
  ProgramBuilder p("conv2d");
  auto batch = p.size("N"), in = p.size("C"), out = p.size("K"), height = p.size("H"), width = p.size("W"),
       side = p.size("R");
  auto x = p.input<float>("x", {batch, in, height, width});
  auto w = p.input<float>("w", {out, in, side, side});
  auto y = p.output<float>("y", {batch, out, height, width});
  auto pad = (side - 1) / 2;
  for (auto b : p.loop("b", 0, batch)) {
    for (auto k : p.loop("k", 0, out)) {
      for (auto i : p.loop("i", 0, height))
        for (auto j : p.loop("j", 0, width)) y(b, k, i, j) = 0.0f;
      for (auto c : p.loop("c", 0, in))
        for (auto r : p.loop("r", 0, side))
          for (auto s : p.loop("s", 0, side))
            for (auto i : p.loop("i", max(0, pad - r), min(height, height + pad - r)))
              for (auto j : p.loop("j", max(0, pad - s), min(width, width + pad - s)))
                y(b, k, i, j) += x(b, c, i + r - pad, j + s - pad) * w(k, c, r, s);
    }
  }
  return p.build();
}

}  // namespace

ProgramEntry conv2d() {
  return {.name = "conv2d",
          .summary = "2-D convolution of a batch of images, same padding",
          .build = build,
          .sizes = {{"N", 32}, {"C", 64}, {"K", 64}, {"H", 56}, {"W", 56}, {"R", 3}},
          .check_sizes = {{"N", 2}, {"C", 3}, {"K", 2}, {"H", 5}, {"W", 7}, {"R", 3}},
          .wrt = {"x", "w"}};
}

}  // namespace loopgrad::programs
