#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <cmath>

namespace loopgrad::programs {
namespace {

/// A layer of long short-term memory over T steps, from a state of zeros. Columns of the weights: input gate, forget
/// gate, cell and output gate, `hidden` of each.
Program build() {
  ProgramBuilder p("lstm");
  auto steps = p.size("T"), batch = p.size("batch"), in = p.size("in"), hidden = p.size("hidden");
  auto x = p.input<float>("x", {steps, batch, in});
  auto wx = p.input<float>("wx", {in, 4 * hidden});
  auto wh = p.input<float>("wh", {hidden, 4 * hidden});
  auto bias = p.input<float>("bias", {4 * hidden});
  auto y = p.output<float>("y", {steps, batch, hidden});
  auto h = p.local<float>("h", {batch, hidden}), c = p.local<float>("c", {batch, hidden});
  auto z = p.local<float>("z", {batch, 4 * hidden});
  for (auto s : p.loop("s", 0, batch)) {
    for (auto j : p.loop("j", 0, hidden)) {
      h(s, j) = 0.0f;
      c(s, j) = 0.0f;
    }
  }
  for (auto t : p.loop("t", 0, steps)) {
    for (auto s : p.loop("s", 0, batch)) {
      for (auto j : p.loop("j", 0, 4 * hidden)) {
        z(s, j) = bias(j);
        for (auto l : p.loop("l", 0, in)) z(s, j) += x(t, s, l) * wx(l, j);
        for (auto l : p.loop("l", 0, hidden)) z(s, j) += h(s, l) * wh(l, j);
      }
    }
    for (auto s : p.loop("s", 0, batch)) {
      for (auto j : p.loop("j", 0, hidden)) {
        auto in_gate = sigmoid(z(s, j)), forget = sigmoid(z(s, hidden + j)), cell = tanh(z(s, 2 * hidden + j)),
             out_gate = sigmoid(z(s, 3 * hidden + j));
        c(s, j) = forget * c(s, j) + in_gate * cell;
        h(s, j) = out_gate * tanh(c(s, j));
        y(t, s, j) = h(s, j);
      }
    }
  }
  return p.build();
}

/// Weights as a new layer has them: uniform, with a spread that keeps gates away from their ends.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  const double spread = 1 / std::sqrt(static_cast<double>(sizes.at("hidden") + 1));
  for (const char* name : {"wx", "wh", "bias"}) {
    HostArray& w = arrays.at(name);
    for (std::int64_t i = 0; i < w.size(); ++i) w.set(i, random.uniform(-spread, spread));
  }
}

}  // namespace

ProgramEntry lstm() {
  return {.name = "lstm",
          .summary = "a layer of long short-term memory over T steps",
          .build = build,
          .sizes = {{"T", 20}, {"batch", 16}, {"in", 128}, {"hidden", 128}},
          .check_sizes = {{"T", 3}, {"batch", 2}, {"in", 5}, {"hidden", 3}},
          .wrt = {"x", "wx", "wh", "bias"},
          .fill = fill};
}

}  // namespace loopgrad::programs
