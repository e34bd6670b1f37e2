#include "tools/programs/programs.h"
#include "tools/support/random.h"

namespace loopgrad::programs {
namespace {

/// log(sum over k of exp(term[k])).
Value log_sum_exp(ProgramBuilder& p, const ArrayHandle& term) {
  auto largest = p.scalar<float>("largest"), sum = p.scalar<float>("sum"), result = p.scalar<float>("result");
  largest = term(0);
  for (auto k : p.loop("k", 1, term.extent(0))) largest.max_with(term(k));
  sum = 0.0f;
  for (auto k : p.loop("k", 0, term.extent(0))) sum += exp(term(k) - largest);
  result = log(sum) + largest;
  return result;
}

/// The log-likelihood of points under a mixture of Gaussians, without its constant. The inverse of the root of
/// covariance k has exp(q[k]) on its diagonal and the rows of l[k], one after the other, below it.
Program build() {
  ProgramBuilder p("gmm");
  auto n = p.size("n"), d = p.size("d"), clusters = p.size("K");
  auto alpha = p.input<float>("alpha", {clusters});
  auto mu = p.input<float>("mu", {clusters, d}), q = p.input<float>("q", {clusters, d});
  auto l = p.input<float>("l", {clusters, d * (d - 1) / 2});
  auto x = p.input<float>("x", {n, d});
  auto likelihood = p.output<float>("likelihood", {});

  auto diagonal = p.local<float>("diagonal", {clusters, d}), sum_q = p.local<float>("sum_q", {clusters});
  for (auto k : p.loop("k", 0, clusters)) {
    sum_q(k) = 0.0f;
    for (auto j : p.loop("j", 0, d)) {
      diagonal(k, j) = exp(q(k, j));
      sum_q(k) += q(k, j);
    }
  }
  likelihood() = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    auto term = p.local<float>("term", {clusters});
    for (auto k : p.loop("k", 0, clusters)) {
      auto squared = p.scalar<float>("squared");
      squared = 0.0f;
      for (auto r : p.loop("r", 0, d)) {
        auto z = p.scalar<float>("z");
        z = diagonal(k, r) * (x(i, r) - mu(k, r));
        for (auto c : p.loop("c", 0, r)) z += l(k, r * (r - 1) / 2 + c) * (x(i, c) - mu(k, c));
        squared += z * z;
      }
      term(k) = alpha(k) + sum_q(k) - 0.5f * squared;
    }
    likelihood() += log_sum_exp(p, term);
  }
  likelihood() -= cast<float>(n) * log_sum_exp(p, alpha);
  return p.build();
}

/// Covariances near the identity.
void fill(const Sizes&, std::uint64_t seed, InputArrays& arrays) {
  tools::Random random(seed);
  for (const char* name : {"q", "l"}) {
    HostArray& array = arrays.at(name);
    for (std::int64_t i = 0; i < array.size(); ++i) array.set(i, random.uniform(-0.3, 0.3));
  }
}

}  // namespace

ProgramEntry gmm() {
  return {.name = "gmm",
          .summary = "log-likelihood of a mixture of Gaussians (ADBench)",
          .build = build,
          .sizes = {{"n", 1000}, {"d", 20}, {"K", 25}},
          .check_sizes = {{"n", 5}, {"d", 4}, {"K", 3}},
          .wrt = {"alpha", "mu", "q", "l"},
          .fill = fill};
}

}  // namespace loopgrad::programs
