#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

struct Attention {
  Value length, width, window;
  ArrayHandle q, k, v, y;
};

/// The heads [first, last) attend to the positions j + (o - window) dilation. Positions beyond the ends have the score
/// 0, count in the softmax and contribute nothing. The dilation is a number and no size, so that indices stay affine.
void attend(ProgramBuilder& p, const Attention& a, const Value& first, const Value& last, int dilation) {
  auto band = 2 * a.window + 1;
  for (auto h : p.loop("h", first, last)) {
    for (auto j : p.loop("j", 0, a.length)) {
      auto score = p.local<float>("score", {band}), weight = p.local<float>("weight", {band});
      auto largest = p.scalar<float>("largest"), sum = p.scalar<float>("sum");
      for (auto o : p.loop("o", 0, band)) {
        auto s = j + (o - a.window) * dilation;
        score(o) = 0.0f;
        p.when(s >= 0 && s < a.length, [&] {
          for (auto d : p.loop("d", 0, a.width)) score(o) += a.q(h, j, d) * a.k(h, s, d);
        });
      }
      largest = score(0);
      for (auto o : p.loop("o", 1, band)) largest.max_with(score(o));
      sum = 0.0f;
      for (auto o : p.loop("o", 0, band)) {
        weight(o) = exp(score(o) - largest);
        sum += weight(o);
      }
      for (auto o : p.loop("o", 0, band)) weight(o) /= sum * sqrt(cast<float>(a.width));
      for (auto d : p.loop("d", 0, a.width)) a.y(h, j, d) = 0.0f;
      for (auto o : p.loop("o", 0, band)) {
        auto s = j + (o - a.window) * dilation;
        p.when(s >= 0 && s < a.length, [&] {
          for (auto d : p.loop("d", 0, a.width)) a.y(h, j, d) += weight(o) * a.v(h, s, d);
        });
      }
    }
  }
}

/// Longformer's attention: the first `dilated` heads look at every fourth position of their window.
Program build(const std::string& name) {
  ProgramBuilder p(name);
  auto heads = p.size("H"), dilated = p.size("dilated"), length = p.size("S"), width = p.size("D"),
       window = p.size("w");
  auto q = p.input<float>("q", {heads, length, width});
  auto k = p.input<float>("k", {heads, length, width});
  auto v = p.input<float>("v", {heads, length, width});
  auto y = p.output<float>("y", {heads, length, width});
  const Attention a{length, width, window, q, k, v, y};
  attend(p, a, 0, dilated, 4);
  attend(p, a, dilated, heads, 1);
  return p.build();
}

}  // namespace

ProgramEntry window_attention() {
  return {.name = "window_attention",
          .summary = "attention to a window of positions",
          .build = [] { return build("window_attention"); },
          .sizes = {{"H", 1}, {"dilated", 0}, {"S", 2048}, {"D", 64}, {"w", 32}},
          .check_sizes = {{"H", 3}, {"dilated", 1}, {"S", 9}, {"D", 3}, {"w", 2}},
          .wrt = {"q", "k", "v"}};
}

ProgramEntry longformer() {
  return {.name = "longformer",
          .summary = "attention to a window of positions, of which some heads skip most",
          .build = [] { return build("longformer"); },
          .sizes = {{"H", 8}, {"dilated", 2}, {"S", 1000}, {"D", 512}, {"w", 32}},
          .check_sizes = {{"H", 2}, {"dilated", 1}, {"S", 7}, {"D", 5}, {"w", 3}},
          .wrt = {"q", "k", "v"}};
}

}  // namespace loopgrad::programs
