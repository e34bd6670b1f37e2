// What `show --stage code` prints compiles with NVRTC and with nvcc, with every helper and whatever names are the
// user's. Skips visibly what is not on this machine.
#include "backends/cuda/index_width.h"
#include "backends/cuda/nvrtc.h"
#include "backends/runtime/solve_sizes.h"
#include "tests/unit/cuda/mapped.h"

#include <loopgrad/loopgrad.h>

#include <unistd.h>
#include <cstdio>
#include <cstdlib>

#include <fstream>

namespace loopgrad::transforms {
namespace {

/// Of all types, with every operator that has a helper.
Program everything(const std::string& name, const std::string& prefix) {
  ProgramBuilder p(name);
  auto n = p.size("linux"), m = p.size(prefix + "m");
  auto x = p.input<float>("M_PI", {n});
  auto d = p.input<double>("threadIdx", {n});
  auto h = p.input<half>("float4", {n});
  auto b = p.input<bfloat16>("atomicAdd", {n});
  auto k = p.input<std::int32_t>("INT32_MIN", {n});
  auto l = p.input<std::int64_t>("index_t", {n});
  auto y = p.output<float>("powf", {n});
  auto z = p.output<double>("double", {n});
  auto w = p.output<half>("__global__", {n});
  auto v = p.output<bfloat16>("warpSize", {n});
  auto i32 = p.output<std::int32_t>("uint32_t", {n});
  auto i64 = p.output<std::int64_t>("int64_t", {n});
  auto flag = p.output<bool>("bool", {n});
  auto sum = p.output<double>("block_reduce", {m});
  auto bins = p.inout<float>("bins", {m});
  p.in_range(k, 0, m);
  for (auto i : p.loop("blockIdx", 0, n)) {
    y(i) = pow(x(i), h(i)) + sigmoid(x(i)) + exp(x(i)) + abs(b(i)) + max(x(i), INFINITY) + min(x(i), NAN);
    z(i) = pow(d(i), k(i)) + atan2(d(i), k(i)) + cast<double>(cast<float>(k(i))) * tanh(d(i)) + sigmoid(d(i)) +
           erf(d(i)) + log1p(d(i)) + floor(d(i)) + 1e300;
    w(i) = x(i) + h(i);
    v(i) = x(i) * b(i);
    i32(i) = cast<std::int32_t>(x(i)) / k(i) % 7 + (-2147483647 - 1) + max(k(i), cast<std::int32_t>(d(i))) - abs(k(i));
    i64(i) = l(i) * 5000000000 / k(i) + cast<std::int64_t>(x(i)) - cast<std::int64_t>(d(i)) - abs(l(i)) + k(i) +
             std::numeric_limits<std::int64_t>::min() % min(l(i), i);
    flag(i) = x(i) > d(i) && !(k(i) < l(i));
  }
  for (auto j : p.loop("for", 0, m)) {
    sum(j) = 0.0;
    for (auto i : p.loop("if", 0, n)) sum(j) += d(i) * j;
  }
  for (auto i : p.loop("popped", 0, n)) bins(k(i)) += x(i);
  return p.build();
}

/// A recurrence of one sequence, sums along rows, and an extremum that columns carry.
Program scanned() {
  ProgramBuilder p("scanned");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m}), a = p.input<float>("a", {n});
  auto y = p.output<float>("y", {n, m}), z = p.output<float>("z", {n, m}), top = p.output<float>("top", {n});
  auto s = p.scalar<float>("s"), high = p.scalar<float>("high");
  s = 1.0f;
  high = -1e30f;
  for (auto i : p.loop("i", 0, n)) {
    s = a(i) * s + x(i, 0);
    high.max_with(x(i, 1));
    top(i) = s * high;
  }
  for (auto i : p.loop("i", 0, n)) {
    y(i, 0) = x(i, 0);
    for (auto j : p.loop("j", 1, m)) y(i, j) = y(i, j - 1) + x(i, j);
  }
  for (auto j : p.loop("j", 0, m)) {
    z(0, j) = x(0, j);
    for (auto i : p.loop("i", 1, n)) z(i, j) = a(i) * z(i - 1, j) + x(i, j);
  }
  return p.build();
}

/// Steps whose tape has a budget, and a sum over all of them.
Program damped_string() {
  ProgramBuilder p("string");
  auto n = p.size("n"), steps = p.size("steps");
  auto u = p.inout<float>("u", {n});
  auto energy = p.output<float>("energy", {1});
  auto next = p.local<float>("next", {n});
  energy(0) = 0.0f;
  for (auto t : p.loop("t", 0, steps)) {
    (void)t;
    for (auto i : p.loop("i", 1, n - 1)) next(i) = sin(u(i)) + 0.25f * (u(i - 1) - 2.0f * u(i) + u(i + 1));
    for (auto i : p.loop("i", 1, n - 1)) {
      u(i) = next(i);
      energy(0) += u(i) * u(i);
    }
  }
  return p.build();
}

std::vector<std::pair<std::string, std::string>> sources() {
  const Program program = everything("exp", "T");
  std::vector<std::pair<std::string, std::string>> result = {{"mapped", cuda_of(mapped_to_small_gpu(program))}};
  for (const Variant variant : {Variant::NaiveTape, Variant::Atomic}) {
    const Gradient gradient = differentiate(program, {.wrt = {"M_PI", "threadIdx"}, .of = {}, .variant = variant});
    auto mapped = [&](const Program& part) {
      return lowered_to_gpu(part.ir(), variant == Variant::NaiveTape ? SumMode::Serial : SumMode::Atomic);
    };
    result.emplace_back(name_of(variant),
                        backend::emit_cuda({mapped(gradient.forward), mapped(gradient.backward)}).source());
  }
  const Gradient scans = differentiate(scanned());
  const Gradient segments = differentiate(damped_string(), {.max_tape_bytes = 1});
  result.emplace_back("segments", backend::emit_cuda({lowered_to_gpu(segments.sizing.ir(), SumMode::Restructured),
                                                      lowered_to_gpu(segments.forward.ir(), SumMode::Restructured),
                                                      lowered_to_gpu(segments.backward.ir(), SumMode::Restructured)})
                                      .source());
  result.emplace_back("scans", backend::emit_cuda({lowered_to_gpu(scans.forward.ir(), SumMode::Restructured),
                                                   lowered_to_gpu(scans.backward.ir(), SumMode::Restructured)})
                                   .source());
  return result;
}

TEST(Compilers, ScansAreAmongIt) {
  const std::string text = sources().back().second;
  for (const char* part : {"__shared__ double sum_factor_", "piece_factor_", "in_order_", "__shared__ float sum_term_"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
}

/// What the host computes for a launch are integers of sizes; casts of floats and data are left to the kernels.
TEST(Compilers, NothingOfItIsLeftToTheHostThatItCannotCompute) {
  ProgramBuilder p("powers");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto e = p.input<std::int32_t>("e", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = pow(x(i), e(i)) + atan2(e(i), x(i));
    y(i) += x(min(cast<std::int64_t>(floor(0.25 * cast<float>(n))) / max(n, 1), i));
  }
  const Program program = p.build();
  const Gradient gradient = differentiate(program, {.wrt = {"x"}, .of = {}});
  for (const Program* part : {&program, &gradient.forward, &gradient.backward}) {
    const ir::Program mapped = mapped_to_small_gpu(*part).after;
    backend::SizeValues sizes;
    for (const ir::Symbol& size : mapped.sizes) sizes[size] = 1000;
    EXPECT_NO_THROW(backend::has_narrow_indices(mapped, sizes));
    ir::walk_stmts(mapped.body, [&](const ir::Stmt& s) {
      const auto* loop = s.as<ir::For>();
      if (!loop || loop->iterator.name != "known") return;
      EXPECT_NO_THROW(backend::evaluate(loop->lower, sizes));
    });
  }
}

TEST(Compilers, NvrtcIsThereWhereItHasToBe) {
  if (!std::getenv("LOOPGRAD_REQUIRE_NVRTC")) GTEST_SKIP() << "tests of generated CUDA may be skipped here";
  EXPECT_TRUE(backend::has_nvrtc()) << "no test has compiled the generated CUDA";
}

TEST(Compilers, NvrtcTakesAllOfIt) {
  if (!backend::has_nvrtc()) GTEST_SKIP() << "no libnvrtc on this machine: nothing is compiled";
  for (const auto& [name, source] : sources())
    EXPECT_NO_THROW(EXPECT_FALSE(backend::compile_cubin(source, "sm_90", name).empty())) << name;
}

TEST(Compilers, NvccTakesAllOfIt) {
  const char* const home = std::getenv("CUDA_HOME");
  const std::string nvcc = home ? std::string(home) + "/bin/nvcc" : "nvcc";
  if (std::system((nvcc + " --version > /dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "no nvcc on this machine: nothing is compiled";
  for (const auto& [name, source] : sources()) {
    const std::string path = testing::TempDir() + "loopgrad_" + std::to_string(::getpid()) + "_" + name + ".cu";
    std::ofstream(path) << source;
    EXPECT_EQ(std::system((nvcc + " -std=c++17 -ptx -arch=compute_90 -o /dev/null " + path).c_str()), 0) << source;
    std::remove(path.c_str());
  }
}

}  // namespace
}  // namespace loopgrad::transforms
