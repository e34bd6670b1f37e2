#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <cmath>

namespace loopgrad::programs {
namespace {

/// out = in w + b, row by row.
void dense(ProgramBuilder& p, const ArrayHandle& in, const ArrayHandle& w, const ArrayHandle& b,
           const ArrayHandle& out) {
  for (auto s : p.loop("s", 0, in.extent(0))) {
    for (auto j : p.loop("j", 0, w.extent(1))) {
      out(s, j) = b(j);
      for (auto l : p.loop("l", 0, w.extent(0))) out(s, j) += in(s, l) * w(l, j);
    }
  }
}

void relu(ProgramBuilder& p, const ArrayHandle& in, const ArrayHandle& out) {
  for (auto s : p.loop("s", 0, in.extent(0)))
    for (auto j : p.loop("j", 0, in.extent(1))) out(s, j) = max(0.0f, in(s, j));
}

/// loss = mean over the samples of logsumexp(z[s]) - z[s, label[s]].
void cross_entropy(ProgramBuilder& p, const ArrayHandle& z, const ArrayHandle& label, const ArrayHandle& loss) {
  auto samples = z.extent(0), classes = z.extent(1);
  loss() = 0.0f;
  for (auto s : p.loop("s", 0, samples)) {
    auto largest = p.scalar<float>("largest");
    largest = z(s, 0);
    for (auto c : p.loop("c", 1, classes)) largest.max_with(z(s, c));
    auto sum = p.scalar<float>("sum");
    sum = 0.0f;
    for (auto c : p.loop("c", 0, classes)) sum += exp(z(s, c) - largest);
    loss() += (log(sum) + largest - z(s, label(s))) / cast<float>(samples);
  }
}

Program build() {
  ProgramBuilder p("mlp");
  auto batch = p.size("batch"), in = p.size("in"), hidden1 = p.size("hidden1"), hidden2 = p.size("hidden2"),
       classes = p.size("classes");
  auto x = p.input<float>("x", {batch, in});
  auto label = p.input<int>("label", {batch});
  auto w1 = p.input<float>("w1", {in, hidden1});
  auto b1 = p.input<float>("b1", {hidden1});
  auto w2 = p.input<float>("w2", {hidden1, hidden2});
  auto b2 = p.input<float>("b2", {hidden2});
  auto w3 = p.input<float>("w3", {hidden2, classes});
  auto b3 = p.input<float>("b3", {classes});
  auto loss = p.output<float>("loss", {});
  p.in_range(label, 0, classes);

  auto z1 = p.local<float>("z1", {batch, hidden1}), h1 = p.local<float>("h1", {batch, hidden1});
  auto z2 = p.local<float>("z2", {batch, hidden2}), h2 = p.local<float>("h2", {batch, hidden2});
  auto z3 = p.local<float>("z3", {batch, classes});
  dense(p, x, w1, b1, z1);
  relu(p, z1, h1);
  dense(p, h1, w2, b2, z2);
  relu(p, z2, h2);
  dense(p, h2, w3, b3, z3);
  cross_entropy(p, z3, label, loss);
  return p.build();
}

/// Weights as a new network has them: uniform, with a spread that keeps activations of order one.
void fill(const Sizes&, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  for (const char* name : {"w1", "w2", "w3"}) {
    HostArray& w = arrays.at(name);
    double spread = std::sqrt(3.0 / static_cast<double>(w.shape()[0] + 1));
    for (std::int64_t i = 0; i < w.size(); ++i) w.set(i, random.uniform(-spread, spread));
  }
  HostArray& x = arrays.at("x");
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, random.uniform());
}

}  // namespace

ProgramEntry mlp() {
  return {.name = "mlp",
          .summary = "three-layer network: ReLU, mean cross-entropy",
          .build = build,
          .sizes = {{"batch", 64}, {"in", 784}, {"hidden1", 1024}, {"hidden2", 1024}, {"classes", 10}},
          .check_sizes = {{"batch", 3}, {"in", 7}, {"hidden1", 5}, {"hidden2", 6}, {"classes", 4}},
          .wrt = {"w1", "b1", "w2", "b2", "w3", "b3"},
          .fill = fill};
}

}  // namespace loopgrad::programs
