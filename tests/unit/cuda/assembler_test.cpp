// Assembly that the assembler of the CUDA toolkit gets wrong is seen, and not used.
#include "backends/cuda/assembler.h"

#include "backends/cuda/nvrtc.h"

#include <gtest/gtest.h>
#include <loopgrad/loopgrad.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace loopgrad::backend {
namespace {

const std::string entry = ".visible .entry k(\n)\n";

TEST(Assembler, AMinusInTheInnerOfTwoMaximaIsSeen) {
  EXPECT_TRUE(
      may_lose_minus(entry + "\tneg.s32 \t%r2, %r5;\n\tmax.s32 \t%r3, %r2, %r1;\n\tmax.s32 \t%r4, %r3, %r9;\n"));
  EXPECT_TRUE(
      may_lose_minus(entry + "\tneg.s32 \t%r2, %r5;\n\tmin.s32 \t%r3, %r1, %r2;\n\tmin.s32 \t%r4, %r9, %r3;\n"));
  EXPECT_TRUE(may_lose_minus(entry + "\tneg.s32 \t%r2, %r5;\n\tmov.u32 \t%r7, %r2;\n\tmax.s32 \t%r3, %r7, %r1;\n"
                                     "\tmov.u32 \t%r8, %r3;\n\tmax.s32 \t%r4, %r8, %r9;\n"));
}

TEST(Assembler, OtherExtremaAreLeftAlone) {
  // In the outer one, of a minimum in a maximum, of 64 bits, and in another function.
  EXPECT_FALSE(
      may_lose_minus(entry + "\tneg.s32 \t%r2, %r5;\n\tmax.s32 \t%r3, %r1, %r6;\n\tmax.s32 \t%r4, %r3, %r2;\n"));
  EXPECT_FALSE(
      may_lose_minus(entry + "\tneg.s32 \t%r2, %r5;\n\tmin.s32 \t%r3, %r2, %r1;\n\tmax.s32 \t%r4, %r3, %r9;\n"));
  EXPECT_FALSE(
      may_lose_minus(entry + "\tneg.s64 \t%r2, %r5;\n\tmax.s64 \t%r3, %r2, %r1;\n\tmax.s64 \t%r4, %r3, %r9;\n"));
  EXPECT_FALSE(may_lose_minus(entry + "\tneg.s32 \t%r2, %r5;\n" + entry +
                              "\tmax.s32 \t%r3, %r2, %r1;\n\tmax.s32 \t%r4, %r3, %r9;\n"));
}

TEST(Assembler, WhatIsCompiledHasNoMinusToLose) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC";
  const std::string source = R"(
template <class T> __device__ inline T max_of(T a, T b) { return a < b ? b : a; }
extern "C" __global__ void k(int* x) { x[threadIdx.x] = max_of(max_of(-x[threadIdx.x + 32], x[threadIdx.x + 64]), x[3]); }
)";
  const std::string assembly = compile_ptx(source, "sm_90", "three");
  EXPECT_NE(assembly.find("vmax.s32"), std::string::npos) << assembly;
  EXPECT_FALSE(may_lose_minus(assembly)) << assembly;
}

/// A program whose bounds are negated when trips are counted: with CUDA 13.0 an element got a term too many.
TEST(Assembler, ATriangleInTilesIsSummedUpRight) {
  setenv("LOOPGRAD_CACHE_DIR", LOOPGRAD_TEST_CACHE, 1);
  std::string why;
  if (!has_cuda(&why)) GTEST_SKIP() << why;
  ProgramBuilder p("triangle");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n + 2}), a = p.input<float>("a", {n});
  auto d = p.output<float>("d", {n + 2});
  for (auto i : p.loop("i", 0, n + 2)) d(i) = 0.0f;
  for (auto i : p.loop("i", 1, n - 1))
    for (auto j : p.loop("j", i, n)) {
      d(j + 1) += a(j) * x(i);
      d(i) += a(j) * x(j + 1);
    }
  CompileOptions options;
  options.target = Target::Cuda;
  Executable program = compile(p.build(), options);
  for (const std::int64_t size : {10, 11, 13, 40}) {
    const auto count = static_cast<std::size_t>(size);
    std::vector<float> xs(count + 2), as(count), sums(count + 2), expected(count + 2, 0.0f);
    for (std::size_t k = 0; k < xs.size(); ++k) xs[k] = static_cast<float>(k % 7) - 2.5f;
    for (std::size_t k = 0; k < as.size(); ++k) as[k] = static_cast<float>(k % 5) - 1.25f;
    for (std::size_t i = 1; i + 1 < count; ++i)
      for (std::size_t j = i; j < count; ++j) {
        expected[j + 1] += as[j] * xs[i];
        expected[i] += as[j] * xs[j + 1];
      }
    DeviceArray dx(ScalarType::F32, {size + 2}), da(ScalarType::F32, {size}), dd(ScalarType::F32, {size + 2});
    dx.upload(xs.data());
    da.upload(as.data());
    program.run({{"x", dx.view()}, {"a", da.view()}, {"d", dd.view()}});
    dd.download(sums.data());
    EXPECT_EQ(sums, expected) << size;  // multiples of 1/8: exact in any order
  }
}

}  // namespace
}  // namespace loopgrad::backend
