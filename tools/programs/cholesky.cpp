#include "tools/programs/programs.h"

namespace loopgrad::programs {
namespace {

/// a = L L^T in place of the lower triangle; the upper one is neither read nor written.
Program build() {
  ProgramBuilder p("cholesky");
  auto n = p.size("n");
  auto a = p.inout<float>("a", {n, n});
  for (auto j : p.loop("j", 0, n)) {
    for (auto k : p.loop("k", 0, j)) a(j, j) -= a(j, k) * a(j, k);
    a(j, j) = sqrt(a(j, j));
    for (auto i : p.loop("i", j + 1, n)) {
      for (auto k : p.loop("k", 0, j)) a(i, j) -= a(i, k) * a(j, k);
      a(i, j) /= a(j, j);
    }
  }
  return p.build();
}

/// Symmetric with a heavy diagonal, hence positive definite.
void fill(const Sizes& sizes, std::uint64_t, InputArrays& arrays) {
  const std::int64_t n = sizes.at("n");
  HostArray& a = arrays.at("a");
  for (std::int64_t i = 0; i < n; ++i) {
    a.set(i * n + i, a.get(i * n + i) + static_cast<double>(n) + 1);
    for (std::int64_t j = 0; j < i; ++j) a.set(j * n + i, a.get(i * n + j));
  }
}

}  // namespace

ProgramEntry cholesky() {
  return {.name = "cholesky",
          .summary = "in-place Cholesky factorisation of a symmetric matrix",
          .build = build,
          .sizes = {{"n", 512}},
          .check_sizes = {{"n", 7}},
          .wrt = {"a"},
          .fill = fill};
}

}  // namespace loopgrad::programs
