#include "tools/programs/programs.h"
#include "tools/support/random.h"

namespace loopgrad::programs {
namespace {

/// Every value in [0, 1] is shared between the two nearest of `bins` bins, linearly.
Program build() {
  ProgramBuilder p("histogram");
  auto n = p.size("n"), bins = p.size("bins");
  auto x = p.input<float>("x", {n});
  auto weight = p.input<float>("weight", {n});
  auto h = p.output<float>("h", {bins});
  for (auto b : p.loop("b", 0, bins)) h(b) = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    auto position = p.scalar<float>("position");
    auto bin = p.scalar<std::int64_t>("bin");
    auto share = p.scalar<float>("share");
    position = x(i) * cast<float>(bins - 1);
    bin = min(cast<std::int64_t>(position), bins - 2);
    share = position - cast<float>(bin);
    h(bin) += weight(i) * (1.0f - share);
    h(bin + 1) += weight(i) * share;
  }
  return p.build();
}

void fill(const Sizes&, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  HostArray& x = arrays.at("x");
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, random.uniform());
}

}  // namespace

ProgramEntry histogram() {
  return {.name = "histogram",
          .summary = "weighted values into soft bins: linear shares of the two nearest",
          .build = build,
          .sizes = {{"n", 1 << 22}, {"bins", 256}},
          .check_sizes = {{"n", 41}, {"bins", 7}},
          .wrt = {"x", "weight"},
          .fill = fill};
}

}  // namespace loopgrad::programs
