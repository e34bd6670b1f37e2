#include "examples/digits/network.h"

namespace digits {
namespace {

/// out = in w + b. Ordinary C++ functions put programs together; so does this template parameter, the activation.
template <class Activation>
void layer(lg::ProgramBuilder& p, const lg::ArrayHandle& in, const lg::ArrayHandle& w, const lg::ArrayHandle& b,
           const lg::ArrayHandle& out, Activation activation) {
  for (auto s : p.loop("s", 0, in.extent(0))) {
    for (auto j : p.loop("j", 0, w.extent(1))) {
      auto sum = p.scalar<float>("sum");
      sum = b(j);
      for (auto k : p.loop("k", 0, w.extent(0))) sum += in(s, k) * w(k, j);
      out(s, j) = activation(sum);
    }
  }
}

/// Declares the parameters and records the three layers from `x` to `score`.
void network(lg::ProgramBuilder& p, const lg::Value& samples, const lg::ArrayHandle& x, const lg::ArrayHandle& score) {
  std::vector<lg::ArrayHandle> w, b;
  for (std::size_t i = 0; i < 3; ++i) {
    w.push_back(p.input<float>(kParameters[2 * i], {kLayers[i], kLayers[i + 1]}));
    b.push_back(p.input<float>(kParameters[2 * i + 1], {kLayers[i + 1]}));
  }
  auto h1 = p.local<float>("h1", {samples, kLayers[1]});
  auto h2 = p.local<float>("h2", {samples, kLayers[2]});
  auto relu = [](const lg::Value& v) { return max(0.0f, v); };
  auto identity = [](const lg::Value& v) { return v; };
  layer(p, x, w[0], b[0], h1, relu);
  layer(p, h1, w[1], b[1], h2, relu);
  layer(p, h2, w[2], b[2], score, identity);
}

}  // namespace

lg::Program scores() {
  lg::ProgramBuilder p("digits_scores");
  auto samples = p.size("samples");
  auto x = p.input<float>("x", {samples, kLayers[0]});
  auto score = p.output<float>("score", {samples, kLayers[3]});
  network(p, samples, x, score);
  return p.build();
}

lg::Program loss() {
  lg::ProgramBuilder p("digits_loss");
  auto samples = p.size("samples");
  auto x = p.input<float>("x", {samples, kLayers[0]});
  auto label = p.input<int>("label", {samples});
  auto loss = p.output<float>("loss", {});
  p.in_range(label, 0, kLayers[3]);
  auto score = p.local<float>("score", {samples, kLayers[3]});
  network(p, samples, x, score);
  loss() = 0.0f;
  for (auto s : p.loop("s", 0, samples)) {
    auto largest = p.scalar<float>("largest");
    largest = score(s, 0);
    for (auto c : p.loop("c", 1, kLayers[3])) largest.max_with(score(s, c));
    auto sum = p.scalar<float>("sum");
    sum = 0.0f;
    for (auto c : p.loop("c", 0, kLayers[3])) sum += exp(score(s, c) - largest);
    loss() += (log(sum) + largest - score(s, label(s))) / lg::cast<float>(samples);
  }
  return p.build();
}

}  // namespace digits
