#include "tools/programs/programs.h"
#include "tools/support/random.h"

#include <cmath>

namespace loopgrad::programs {
namespace {

/// Sums over the neighbours in a graph: edges ptr[v] .. ptr[v+1] end at v, start at src[e] and weigh w[e].
Program build() {
  ProgramBuilder p("csr_sum");
  auto nodes = p.size("V"), edges = p.size("E"), d = p.size("D");
  auto x = p.input<float>("x", {nodes, d});
  auto w = p.input<float>("w", {edges});
  auto ptr = p.input<int>("ptr", {nodes + 1});
  auto src = p.input<int>("src", {edges});
  auto y = p.output<float>("y", {nodes, d});
  p.csr(ptr, edges);
  p.in_range(src, 0, nodes);
  for (auto v : p.loop("v", 0, nodes)) {
    for (auto j : p.loop("j", 0, d)) y(v, j) = 0.0f;
    for (auto e : p.loop("e", ptr(v), ptr(v + 1)))
      for (auto j : p.loop("j", 0, d)) y(v, j) += w(e) * x(src(e), j);
  }
  return p.build();
}

/// Sources are skewed towards low numbers.
void fill(const Sizes& sizes, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  HostArray& src = arrays.at("src");
  for (std::int64_t e = 0; e < src.size(); ++e)
    src.set(e, std::floor(static_cast<double>(sizes.at("V")) * std::pow(random.uniform(), 2)));
}

}  // namespace

ProgramEntry csr_sum() {
  return {.name = "csr_sum",
          .summary = "weighted sums over the neighbours in a graph, CSR by destination",
          .build = build,
          .sizes = {{"V", 20000}, {"E", 200000}, {"D", 32}},
          .check_sizes = {{"V", 9}, {"E", 31}, {"D", 3}},
          .wrt = {"x", "w"},
          .fill = fill};
}

}  // namespace loopgrad::programs
