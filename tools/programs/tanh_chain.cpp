#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

/// Every element passes through the same `layers` layers v <- tanh(a v + b); all elements share the scalars a and b.
Program build() {
  ProgramBuilder p("tanh_chain");
  auto n = p.size("n"), layers = p.size("layers");
  auto x = p.input<float>("x", {n});
  auto a = p.input<float>("a", {});
  auto b = p.input<float>("b", {});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto v = p.scalar<float>("v");
    v = x(i);
    for ([[maybe_unused]] auto l : p.loop("l", 0, layers)) v = tanh(a() * v + b());
    y(i) = v;
  }
  return p.build();
}

}  // namespace

ProgramEntry tanh_chain() {
  return {.name = "tanh_chain",
          .summary = "layers of tanh(a v + b) on every element, with a and b shared by all",
          .build = build,
          .sizes = {{"n", 1 << 22}, {"layers", 4}},
          .check_sizes = {{"n", 23}, {"layers", 3}},
          .wrt = {"x", "a", "b"}};
}

}  // namespace loopgrad::programs
