// Sums whose blocks keep what they load in shared memory: each computes the same in the checked interpreter, which
// finds races, missing barriers and what leaves an array, at sizes that are multiples of nothing.
#include "tests/unit/cuda/mapped.h"
#include "transforms/analysis/size_estimates.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

Machine gpu_with_tiles(std::int64_t enough_threads) {
  Machine machine = small_gpu(enough_threads);
  machine.tile_threads = 32;
  return machine;
}

/// For a device that so many threads fill, and sizes that are expected.
LoweredProgram mapped_to_gpu_of(std::int64_t threads, const Program& program, const SizeEstimates& sizes = {}) {
  LoweredProgram result;
  result.before = program.ir();
  result.after = shared_passes(program.ir(), SumMode::Restructured, result.report, gpu_machine());
  LowerOptions options = {.machine = gpu_with_tiles(threads), .first = Part::Mapping};
  options.expected_sizes = sizes;
  result.after = lower_for(result.after, options, result.report).program;
  ir::verify(result.after, "map_to_gpu");
  result.text = ir::print(result.after.body);
  return result;
}

bool has(const LoweredProgram& result, const char* text) { return result.text.find(text) != std::string::npos; }

Program product() {
  ProgramBuilder p("product");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto a = p.input<float>("a", {n, k});
  auto b = p.input<float>("b", {k, m});
  auto c = p.inout<float>("c", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m))
      for (auto l : p.loop("l", 0, k)) c(i, j) += abs(a(i, l) - b(l, j));
  return p.build();
}

Program kernels_of_batches() {
  ProgramBuilder p("kernels_of_batches");
  auto h = p.size("h"), n = p.size("n"), m = p.size("m"), d = p.size("d");
  auto x = p.input<double>("x", {h, n, d});
  auto y = p.input<double>("y", {h, m, d});
  auto s = p.output<double>("s", {h, n, m});
  for (auto b : p.loop("b", 0, h))
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) {
        s(b, i, j) = 0.0;
        for (auto l : p.loop("l", 0, d)) s(b, i, j) += (x(b, i, l) - y(b, j, l)) * (x(b, i, l) - y(b, j, l));
        s(b, i, j) = exp(-s(b, i, j));
      }
  return p.build();
}

Program strided_convolution() {
  ProgramBuilder p("strided_convolution");
  auto n = p.size("n"), k = p.size("k"), c = p.size("c"), m = p.size("m"), r = p.size("r");
  auto x = p.input<float>("x", {n, c, m * 2 + r});
  auto w = p.input<float>("w", {k, c, r});
  auto y = p.output<float>("y", {n, k, m});
  for (auto b : p.loop("b", 0, n))
    for (auto l : p.loop("l", 0, k))
      for (auto j : p.loop("j", 0, m)) {
        y(b, l, j) = 0.0f;
        for (auto i : p.loop("i", 0, c))
          for (auto s : p.loop("s", 0, r)) y(b, l, j) += x(b, i, j * 2 + s) * w(l, i, s);
      }
  return p.build();
}

/// The gradients of a convolution's weights: few sums of many terms.
Program weights() {
  ProgramBuilder p("weights");
  auto n = p.size("n"), k = p.size("k"), c = p.size("c"), m = p.size("m"), r = p.size("r");
  auto x = p.input<double>("x", {n, c, m + r});
  auto d = p.input<double>("d", {n, k, m});
  auto w = p.output<double>("w", {k, c, r});
  for (auto l : p.loop("l", 0, k))
    for (auto i : p.loop("i", 0, c))
      for (auto s : p.loop("s", 0, r)) {
        w(l, i, s) = 0.0;
        for (auto b : p.loop("b", 0, n))
          for (auto j : p.loop("j", 0, m)) w(l, i, s) += d(b, l, j) * x(b, i, j + s);
      }
  return p.build();
}

/// Rows of a band: a[i, s] is the element in column i + s - w.
Program banded_product() {
  ProgramBuilder p("banded_product");
  auto h = p.size("h"), n = p.size("n"), m = p.size("m"), w = p.size("w");
  auto a = p.input<double>("a", {m, w * 2 + 1, h});
  auto x = p.input<double>("x", {h, n});
  auto y = p.output<double>("y", {m, n});
  for (auto l : p.loop("l", 0, m))
    for (auto i : p.loop("i", 0, n)) {
      y(l, i) = 0.0;
      for (auto s : p.loop("s", max(0, w - i), min(w * 2 + 1, n + w - i)))
        for (auto b : p.loop("b", 0, h)) y(l, i) += a(l, s, b) * x(b, i + s - w);
    }
  return p.build();
}

TEST(SharedTiles, Products) {
  const LoweredProgram result = mapped_to_gpu_of(1, product());
  EXPECT_TRUE(has(result, "a_tile")) << result.text;
  for (const auto& [n, m, k] : {std::tuple{45, 47, 19}, {64, 64, 16}, {110, 65, 1}, {111, 129, 33}, {50, 50, 0}})
    expect_same_results(result, {{"n", n}, {"m", m}, {"k", k}});
}

TEST(SharedTiles, Distances) {
  const LoweredProgram result = mapped_to_gpu_of(1, kernels_of_batches());
  EXPECT_TRUE(has(result, "x_tile")) << result.text;
  for (const auto& [n, m, d] : {std::tuple{45, 47, 5}, {61, 110, 17}})
    expect_same_results(result, {{"h", 2}, {"n", n}, {"m", m}, {"d", d}});
}

TEST(SharedTiles, StridedConvolutions) {
  const LoweredProgram result = mapped_to_gpu_of(1, strided_convolution());
  EXPECT_TRUE(has(result, "x_tile")) << result.text;
  for (const auto& [k, c, m, r] : {std::tuple{45, 3, 47, 3}, {61, 17, 110, 2}, {45, 2, 45, 0}})
    expect_same_results(result, {{"n", 2}, {"k", k}, {"c", c}, {"m", m}, {"r", r}});
}

TEST(SharedTiles, FewSumsOfManyTermsAreSplit) {
  const LoweredProgram result =
      mapped_to_gpu_of(3000, weights(), {{"n", 17}, {"k", 45}, {"c", 47}, {"m", 17}, {"r", 2}});
  EXPECT_TRUE(has(result, "w_now_partial[parts")) << result.text;
  for (const auto& [n, k, c, m] : {std::tuple{5, 45, 47, 3}, {17, 47, 45, 17}, {0, 45, 45, 3}, {4, 45, 45, 0}})
    expect_same_results(result, {{"n", n}, {"k", k}, {"c", c}, {"m", m}, {"r", 2}});
  const LoweredProgram steps = mapped_to_gpu_of(3000, product(), {{"n", 45}, {"m", 47}, {"k", 133}});
  EXPECT_TRUE(has(steps, "c_now_partial[parts")) << steps.text;
  for (const int k : {0, 1, 16, 70, 133}) expect_same_results(steps, {{"n", 45}, {"m", 47}, {"k", k}});
}

TEST(SharedTiles, AreRefusedWithAReason) {
  const auto reasons = [](const Program& program) {
    Report report;
    const ir::Program shared = shared_passes(program.ir(), SumMode::Restructured, report, gpu_machine());
    lower_for(shared, {.machine = gpu_with_tiles(1), .first = Part::Mapping}, report);
    std::string all;
    for (const auto& kernel : report.kernels)
      if (kernel.shape == "no shared tiles") all += kernel.reason + "\n";
    return all;
  };
  const auto sums = [](bool both, bool indirect) {
    ProgramBuilder p("sums");
    auto n = p.size("n"), m = p.size("m"), k = p.size("k");
    auto a = p.input<float>("a", {n + m, k});
    auto b = p.input<float>("b", {k, m});
    auto rows = p.input<std::int64_t>("rows", {n});
    auto c = p.output<float>("c", {n, m});
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) {
        c(i, j) = 0.0f;
        for (auto l : p.loop("l", 0, k)) {
          if (both) c(i, j) += a(i + j, l) * b(l, j);
          else if (indirect) c(i, j) += a(rows(i), l) * b(l, j);
          else c(i, j) += a(i, l) * b(l, i);
        }
      }
    return p.build();
  };
  const char* const apart = "no two of its loops have what they load apart\n";
  EXPECT_EQ(reasons(sums(true, false)), apart);
  EXPECT_EQ(reasons(sums(false, true)), apart);
  EXPECT_EQ(reasons(sums(false, false)), apart);
  EXPECT_EQ(reasons(product()), "");
}

TEST(SharedTiles, AreForSizesThatFillThem) {
  const LoweredProgram result = mapped_to_gpu_of(1, product(), {{"n", 13}, {"m", 64}, {"k", 64}});
  EXPECT_FALSE(has(result, "a_tile")) << result.text;
}

TEST(SharedTiles, BandedProducts) {
  const LoweredProgram result = mapped_to_gpu_of(1, banded_product());
  EXPECT_TRUE(has(result, "x_tile")) << result.text;
  for (const auto& [m, h, n, w] : {std::tuple{45, 3, 47, 3}, {61, 18, 110, 2}, {45, 2, 45, 0}, {45, 1, 45, 44}})
    expect_same_results(result, {{"h", h}, {"m", m}, {"n", n}, {"w", w}});
}

}  // namespace
}  // namespace loopgrad::transforms
