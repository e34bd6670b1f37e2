// What is said when a GPU cannot be used; needs none. What needs one is in tests/unit/cuda.
#include "backends/cuda/device_checks.h"
#include "backends/cuda/emitter.h"
#include "backends/cuda/nvrtc.h"
#include "tests/error/expect_error.h"
#include "tests/unit/transforms/passes.h"
#include "transforms/pipeline.h"

#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <cstdlib>

namespace loopgrad::test {
namespace {

namespace cuda = backend::cuda;

Program doubled() {
  ProgramBuilder p("doubled");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = 2.0f * x(i);
  return p.build();
}

TEST(CudaErrors, NoGpu) {
  if (has_cuda()) GTEST_SKIP() << "there is a GPU: " << cuda_device_name();
  CompileOptions options;
  options.target = Target::Cuda;
  expect_error<RuntimeError>(ErrorCode::NoDevice, {"doubled", "Target::OpenMP"}, [&] { compile(doubled(), options); });
  expect_error<RuntimeError>(ErrorCode::NoDevice, {"Target::OpenMP"}, [] { DeviceArray(ScalarType::F32, {4}); });
  // The process lives on, and other targets work.
  std::vector<float> x(3, 1), y(3);
  options.target = Target::Interpreter;
  compile(doubled(), options).run({{"x", view(x.data(), {3})}, {"y", view(y.data(), {3})}});
  EXPECT_EQ(y[2], 2);
}

TEST(CudaErrors, DeviceMemoryForAProgramOnTheHost) {
  std::vector<float> x(3, 1), y(3);
  for (const Target target : {Target::Interpreter, Target::OpenMP}) {
    CompileOptions options;
    options.target = target;
    const Arguments arguments = {{"x", device_view(x.data(), {3})}, {"y", view(y.data(), {3})}};
    expect_error<UsageError>(ErrorCode::BadArgument, {"doubled", "'x'", "cuda memory"},
                             [&] { compile(doubled(), options).run(arguments); });
  }
}

TEST(CudaErrors, AGpuThatIsTooOld) {
  expect_error<RuntimeError>(ErrorCode::NoDevice, {"doubled", "Tesla P100", "6.0", "7.0 or later"},
                             [] { cuda::check_capability("Tesla P100", 6, 0, "doubled"); });
  EXPECT_NO_THROW(cuda::check_capability("NVIDIA H200", 9, 0, "doubled"));
}

TEST(CudaErrors, AGpuThatTheToolkitDoesNotKnow) {
  expect_error<CompileError>(ErrorCode::NoCompiler, {"doubled", "sm_130", "sm_80, sm_90", "12.8"}, [] {
    cuda::check_architecture("sm_130", {80, 90}, "12.8", "doubled");
  });
  EXPECT_NO_THROW(cuda::check_architecture("sm_90", {80, 90}, "12.8", "doubled"));
  EXPECT_NO_THROW(cuda::check_architecture("sm_90", {}, "12.8", "doubled"));  // a toolkit that does not tell
}

TEST(CudaErrors, ABlockThatTheDeviceRefuses) {
  expect_error<UsageError>(ErrorCode::BadArgument, {"doubled", "doubled_0", "1024", "640"},
                           [] { cuda::check_block(1024, 640, "doubled_0", "doubled"); });
  EXPECT_NO_THROW(cuda::check_block(640, 640, "doubled_0", "doubled"));
}

TEST(CudaErrors, AnotherDeviceIsCurrent) {
  expect_error<UsageError>(ErrorCode::BadArgument, {"doubled", "device 0", "device 1", "cudaSetDevice(0)"},
                           [] { cuda::check_current_device(0, 1, "doubled"); });
  EXPECT_NO_THROW(cuda::check_current_device(1, 1, "doubled"));
}

/// Each array is small enough to be declared in the block's memory; all together they are not.
TEST(CudaErrors, ManySmallLocalArraysFit) {
  if (!backend::has_nvrtc()) GTEST_SKIP() << "no NVRTC";
  constexpr int count = 6, extent = 2048;  // 16 KiB each
  ProgramBuilder p("many_locals");
  auto n = p.size("n");
  auto y = p.inout<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    std::vector<ArrayHandle> t;
    for (int k = 0; k < count; ++k) t.push_back(p.local<double>("t", {extent}));
    for (int k = 0; k < count; ++k)
      for (auto e : p.loop("e", 0, extent)) t[k](e) = k == 0 ? Value(y(i)) : t[k - 1](extent - 1 - e) + 1.0;
    y(i) = t.back()(0);
  }
  Report report;
  const std::vector<ir::Program> mapped = {transforms::lowered_to_gpu(p.build().ir())};
  const std::string source = backend::emit_cuda(mapped).source();
  EXPECT_FALSE(backend::compile_cubin(source, "sm_80", "many_locals").empty());
}

/// NVRTC is looked for once in a process, so this is another one.
TEST(CudaErrorsDeathTest, NoToolkit) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("LOOPGRAD_NVRTC", "/nowhere/libnvrtc.so", 1);
        try {
          backend::compile_cubin("", "sm_90", "doubled");
        } catch (const CompileError& error) {
          std::fprintf(stderr, "%s\n", error.what());
          std::exit(error.code() == ErrorCode::NoCompiler && !backend::has_nvrtc() ? 0 : 1);
        }
      },
      testing::ExitedWithCode(0), "doubled.*libnvrtc.*not found.*CUDA_HOME");
}

TEST(CudaErrors, CodeThatTheCompilerRefuses) {
  if (!backend::has_nvrtc()) GTEST_SKIP() << "no libnvrtc on this machine";
  try {
    backend::compile_cubin("__global__ void f() { return 1; }", "sm_90", "doubled");
    FAIL() << "compiled";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.code(), ErrorCode::CompileFailed);
    EXPECT_NE(std::string(error.what()).find("doubled.cu"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace loopgrad::test
