#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <algorithm>
#include <cmath>

namespace loopgrad::programs {
namespace {

/// One graph attention layer on a graph in CSR form by destination: edges ptr[v] .. ptr[v+1] end at v, start at src[e].
Program build() {
  ProgramBuilder p("gat");
  auto nodes = p.size("V"), edges = p.size("E"), d = p.size("D");
  auto x = p.input<float>("x", {nodes, d});
  auto w = p.input<float>("w", {d, d});
  auto left = p.input<float>("al", {d});
  auto right = p.input<float>("ar", {d});
  auto ptr = p.input<int>("ptr", {nodes + 1});
  auto src = p.input<int>("src", {edges});
  auto y = p.output<float>("y", {nodes, d});
  p.csr(ptr, edges);
  p.in_range(src, 0, nodes);

  auto h = p.local<float>("h", {nodes, d});
  auto from = p.local<float>("from", {nodes}), to = p.local<float>("to", {nodes});
  for (auto v : p.loop("v", 0, nodes)) {
    for (auto j : p.loop("j", 0, d)) {
      h(v, j) = 0.0f;
      for (auto l : p.loop("l", 0, d)) h(v, j) += x(v, l) * w(l, j);
    }
    from(v) = 0.0f;
    to(v) = 0.0f;
    for (auto j : p.loop("j", 0, d)) {
      from(v) += h(v, j) * left(j);
      to(v) += h(v, j) * right(j);
    }
  }
  auto score = p.local<float>("score", {edges}), a = p.local<float>("a", {edges});
  for (auto v : p.loop("v", 0, nodes)) {
    auto largest = p.scalar<float>("largest"), sum = p.scalar<float>("sum");
    largest = -1e30f;
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) {
      auto s = p.scalar<float>("s");
      s = from(src(e)) + to(v);
      score(e) = select(s > 0, s, 0.1f * s);
      largest.max_with(score(e));
    }
    sum = 0.0f;
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) {
      a(e) = exp(score(e) - largest);
      sum += a(e);
    }
    for (auto j : p.loop("j", 0, d)) y(v, j) = 0.0f;
    for (auto e : p.loop("e", ptr(v), ptr(v + 1)))
      for (auto j : p.loop("j", 0, d)) y(v, j) += a(e) / sum * h(src(e), j);
  }
  return p.build();
}

/// In-degrees follow a Pareto(1.5) law, sources are skewed towards low numbers.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  const std::int64_t nodes = sizes.at("V"), edges = sizes.at("E");
  std::vector<double> ends(static_cast<std::size_t>(nodes) + 1, 0.0);
  for (std::size_t v = 1; v < ends.size(); ++v) ends[v] = ends[v - 1] + std::pow(1.0 - random.uniform(), -1 / 1.5);
  HostArray& ptr = arrays.at("ptr");
  for (std::int64_t v = 0; v <= nodes; ++v)
    ptr.set(v, std::round(ends[static_cast<std::size_t>(v)] / std::max(1.0, ends.back()) * static_cast<double>(edges)));
  HostArray& src = arrays.at("src");
  for (std::int64_t e = 0; e < edges; ++e)
    src.set(e, std::floor(static_cast<double>(nodes) * std::pow(random.uniform(), 2)));
}

}  // namespace

ProgramEntry gat() {
  return {.name = "gat",
          .summary = "graph attention layer, CSR by destination",
          .build = build,
          .sizes = {{"V", 19717}, {"E", 152830}, {"D", 32}},
          .check_sizes = {{"V", 9}, {"E", 31}, {"D", 3}},
          .wrt = {"x", "w", "al", "ar"},
          .fill = fill};
}

}  // namespace loopgrad::programs
