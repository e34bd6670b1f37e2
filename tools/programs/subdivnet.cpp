#include "tools/programs/programs.h"
#include "tools/support/random.h"

namespace loopgrad::programs {
namespace {

/// A convolution over the faces of a triangle mesh: every face sees itself, the sum of its three neighbours, their
/// differences from one to the next, and theirs from itself.
Program build() {
  ProgramBuilder p("subdivnet");
  auto faces = p.size("n"), in = p.size("in"), out = p.size("out");
  auto x = p.input<float>("x", {faces, in});
  auto adj = p.input<int>("adj", {faces, 3});
  auto w0 = p.input<float>("w0", {in, out}), w1 = p.input<float>("w1", {in, out});
  auto w2 = p.input<float>("w2", {in, out}), w3 = p.input<float>("w3", {in, out});
  auto y = p.output<float>("y", {faces, out});
  p.in_range(adj, 0, faces);
  for (auto i : p.loop("i", 0, faces)) {
    auto sum = p.local<float>("sum", {in}), around = p.local<float>("around", {in}),
         away = p.local<float>("away", {in});
    for (auto c : p.loop("c", 0, in)) {
      sum(c) = 0.0f;
      around(c) = 0.0f;
      away(c) = 0.0f;
      for (auto j : p.loop("j", 0, 3)) {
        sum(c) += x(adj(i, j), c);
        around(c) += abs(x(adj(i, j), c) - x(adj(i, (j + 1) % 3), c));
        away(c) += abs(x(adj(i, j), c) - x(i, c));
      }
    }
    for (auto o : p.loop("o", 0, out)) {
      y(i, o) = 0.0f;
      for (auto c : p.loop("c", 0, in))
        y(i, o) += x(i, c) * w0(c, o) + sum(c) * w1(c, o) + around(c) * w2(c, o) + away(c) * w3(c, o);
    }
  }
  return p.build();
}

/// Neighbours are within 512 of a face, as in a mesh whose faces are numbered along its surface.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  const std::int64_t faces = sizes.at("n");
  HostArray& adj = arrays.at("adj");
  for (std::int64_t k = 0; k < adj.size(); ++k) {
    const std::int64_t neighbour = (k / 3 + random.below(1025) - 512) % faces;
    adj.set(k, static_cast<double>(neighbour < 0 ? neighbour + faces : neighbour));
  }
}

}  // namespace

ProgramEntry subdivnet() {
  return {.name = "subdivnet",
          .summary = "convolution over the faces of a mesh, three neighbours each",
          .build = build,
          .sizes = {{"n", 32768}, {"in", 13}, {"out", 64}},
          .check_sizes = {{"n", 11}, {"in", 3}, {"out", 5}},
          .wrt = {"x", "w0", "w1", "w2", "w3"},
          .fill = fill};
}

}  // namespace loopgrad::programs
