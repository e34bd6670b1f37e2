// Streams, graphs and steady state as a caller sees them, and failures that need a GPU. Skips visibly where there is
// none.
#include "backends/cuda/device.h"
#include "tests/error/expect_error.h"
#include "tests/unit/cuda/own_stream.h"

#include <cuda_runtime_api.h>
#include <loopgrad/loopgrad.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

namespace loopgrad::test {
namespace {

namespace cuda = backend::cuda;

/// Three outputs that have nothing to do with each other, so that the gradient has independent kernels, and one after
/// them.
Program branches() {
  ProgramBuilder p("branches");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto w = p.input<float>("w", {n});
  auto y = p.output<float>("y", {n});
  auto z = p.output<float>("z", {n});
  auto s = p.output<float>("s", {});
  for (auto i : p.loop("i", 0, n)) y(i) = x(i) * x(i);
  for (auto i : p.loop("j", 0, n)) z(i) = exp(w(i));
  s() = 0.0f;
  for (auto i : p.loop("k", 0, n)) s() += x(i) * w(i);
  return p.build();
}

class CudaStreams : public testing::Test {
 protected:
  static constexpr std::int64_t n = 10000;

  void SetUp() override {
    setenv("LOOPGRAD_CACHE_DIR", LOOPGRAD_TEST_CACHE, 1);
    std::string why;
    if (!has_cuda(&why)) GTEST_SKIP() << why;
    for (const char* name : {"x", "w", "y", "z", "d_x", "d_w", "d_y", "d_z"}) arrays[name] = {ScalarType::F32, {n}};
    for (const char* name : {"s", "d_s"}) arrays[name] = {ScalarType::F32, {}};
    for (const char* name : {"x", "w", "d_y", "d_z", "d_s"}) fill(name, 0.25f);
    CompileOptions options;
    options.target = Target::Cuda;
    gradient.emplace(compile_gradient(branches(), {}, options));
  }

  void fill(const std::string& name, float value) {
    const std::vector<float> values(n, value);
    arrays.at(name).upload(values.data());
  }
  float first(const std::string& name) {
    std::vector<float> values(n);
    arrays.at(name).download(values.data());
    return values[0];
  }
  Arguments forward_arguments() { return pick({"x", "w", "y", "z", "s"}); }
  Arguments backward_arguments() { return pick({"x", "w", "y", "z", "s", "d_x", "d_w", "d_y", "d_z", "d_s"}); }
  Arguments pick(std::initializer_list<const char*> names) {
    Arguments arguments;
    for (const char* name : names) arguments[name] = arrays.at(name).view();
    return arguments;
  }
  void run(void* stream) {
    gradient->forward(forward_arguments(), {}, {stream});
    gradient->backward(backward_arguments(), {}, {stream});
  }
  /// With x = w = v and incoming gradients g: d_x = 2 v g + g v.
  void expect_gradient(float v, float g) {
    EXPECT_NEAR(first("d_x"), 2 * v * g + g * v, 1e-5);
    EXPECT_NEAR(first("d_w"), std::exp(v) * g + g * v, 1e-5);
  }

  std::map<std::string, DeviceArray> arrays;
  std::optional<GradientExecutable> gradient;
};

TEST_F(CudaStreams, RunsOnTheCallersStreams) {
  OwnStream a, b;
  for (int i = 0; i < 3; ++i)  // the same executable, by turns, with no wait between
    for (cudaStream_t stream : {a.stream, b.stream, cudaStream_t{}}) run(stream);
  expect_gradient(0.25f, 0.25f);
}

TEST_F(CudaStreams, NothingIsAllocatedInSteadyState) {
  run(nullptr);
  run(nullptr);
  cudaDeviceSynchronize();
  const cuda::MemoryUse before = cuda::memory_use();
  std::size_t free_before = 0, free_after = 0, total = 0;
  cudaMemGetInfo(&free_before, &total);
  for (int i = 0; i < 50; ++i) run(nullptr);
  cudaDeviceSynchronize();
  cudaMemGetInfo(&free_after, &total);
  EXPECT_EQ(free_before, free_after);
  EXPECT_EQ(cuda::memory_use().peak, before.peak);
}

/// Keeps a stream busy until it is told to go on, for two seconds at most.
struct Gate {
  std::atomic<bool> open{false}, late{false};
  static void wait(void* self) {
    Gate& gate = *static_cast<Gate*>(self);
    for (int i = 0; i < 2000 && !gate.open; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    gate.late = !gate.open;
  }
};

TEST_F(CudaStreams, NothingWaitsInSteadyState) {
  OwnStream own;
  run(own.stream);
  run(own.stream);
  cudaDeviceSynchronize();
  Gate gate;
  ASSERT_EQ(cudaLaunchHostFunc(own.stream, Gate::wait, &gate), cudaSuccess);
  for (int i = 0; i < 10; ++i) run(own.stream);
  gate.open = true;
  cudaDeviceSynchronize();
  EXPECT_FALSE(gate.late) << "a run waited for the stream";
  expect_gradient(0.25f, 0.25f);
}

TEST_F(CudaStreams, ForwardAndBackwardCanBeCaptured) {
  OwnStream own;
  run(own.stream);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  run(own.stream);
  ASSERT_EQ(cudaStreamEndCapture(own.stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (const float v : {0.5f, 1.0f, -2.0f}) {
    fill("x", v);
    fill("w", v);
    ASSERT_EQ(cudaGraphLaunch(executable, own.stream), cudaSuccess);
    cudaStreamSynchronize(own.stream);
    expect_gradient(v, 0.25f);
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

/// y[i] = exp(x[n - 1 - i]) exp(x[i]), by way of a local array.
Executable with_local() {
  ProgramBuilder p("with_local");
  auto m = p.size("n");
  auto x = p.input<float>("x", {m});
  auto y = p.output<float>("y", {m});
  auto t = p.local<float>("t", {m});
  for (auto i : p.loop("i", 0, m)) t(i) = exp(x(i));
  for (auto i : p.loop("k", 0, m)) y(i) = t(m - 1 - i) * t(i);
  CompileOptions options;
  options.target = Target::Cuda;
  return compile(p.build(), options);
}

TEST_F(CudaStreams, SizesTakeTurns) {
  const Executable executable = with_local();
  OwnStream own;
  std::vector<DeviceArray> xs, ys;
  std::vector<std::int64_t> sizes = {100, 5000, 70, 200000, 100, 3};
  for (const std::int64_t size : sizes) {
    xs.emplace_back(ScalarType::F32, std::vector{size});
    ys.emplace_back(ScalarType::F32, std::vector{size});
    const std::vector<float> ones(static_cast<std::size_t>(size), 1);
    xs.back().upload(ones.data());
  }
  for (int round = 0; round < 4; ++round)
    for (std::size_t k = 0; k < sizes.size(); ++k)
      executable.run({{"x", xs[k].view()}, {"y", ys[k].view()}}, {}, {round % 2 ? own.stream : nullptr});
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    std::vector<float> result(static_cast<std::size_t>(sizes[k]));
    ys[k].download(result.data());
    for (const float value : result) ASSERT_NEAR(value, std::exp(2.0f), 1e-4) << sizes[k];
  }
}

TEST_F(CudaStreams, ACaptureThatWouldAllocateIsRefused) {
  const Executable executable = with_local();
  OwnStream own;
  ASSERT_EQ(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  expect_error<UsageError>(ErrorCode::BadArgument, {"with_local", "captured"}, [&] {
    executable.run(pick({"x", "y"}), {}, {own.stream});
  });
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(own.stream, &graph);
  if (graph) cudaGraphDestroy(graph);
  cudaGetLastError();
  fill("x", 1);
  executable.run(pick({"x", "y"}), {}, {own.stream});
  EXPECT_NEAR(first("y"), std::exp(2.0f), 1e-4);
}

TEST_F(CudaStreams, IndependentKernelsBecomeBranchesOfTheGraph) {
  OwnStream own;
  run(own.stream);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  gradient->forward(forward_arguments(), {}, {own.stream});
  ASSERT_EQ(cudaStreamEndCapture(own.stream, &graph), cudaSuccess);
  std::size_t roots = 0;
  ASSERT_EQ(cudaGraphGetRootNodes(graph, nullptr, &roots), cudaSuccess);
  EXPECT_GE(roots, 2u);
  cudaGraphDestroy(graph);
}

TEST_F(CudaStreams, RunsOutOfMemoryAndGoesOn) {
  ProgramBuilder p("cube");
  auto m = p.size("n");
  auto x = p.input<float>("x", {m});
  auto y = p.output<float>("y", {m});
  auto t = p.local<float>("t", {m, m, m});
  for (auto i : p.loop("i", 0, m))
    for (auto j : p.loop("j", 0, m))
      for (auto k : p.loop("k", 0, m)) t(i, j, k) = x(i) * x(j) + x(k);
  for (auto i : p.loop("l", 0, m)) y(i) = t(i, m - 1 - i, i) + t(m - 1 - i, 0, i);
  CompileOptions options;
  options.target = Target::Cuda;
  const Executable executable = compile(p.build(), options);
  expect_error<RuntimeError>(ErrorCode::OutOfMemory, {"cube", "cudaMalloc", "bytes are free"}, [&] {
    executable.run(pick({"x", "y"}));
  });  // 4 TB
  DeviceArray small_x(ScalarType::F32, {16}), small_y(ScalarType::F32, {16});
  const std::vector<float> ones(16, 1);
  std::vector<float> result(16);
  small_x.upload(ones.data());
  executable.run({{"x", small_x.view()}, {"y", small_y.view()}});
  small_y.download(result.data());
  EXPECT_EQ(result[3], 4.0f);
}

TEST_F(CudaStreams, MemoryOfTheDeviceForAProgramOnTheHost) {
  CompileOptions options;
  options.target = Target::OpenMP;
  Arguments lie;
  for (const auto& [name, device] : pick({"x", "w", "y", "z", "s"}))
    lie[name] = {device.data, device.type, device.shape, {}, Device::Host};
  expect_error<UsageError>(ErrorCode::BadArgument, {"branches", "CUDA device"},
                           [&] { compile(branches(), options).run(lie); });
}

TEST_F(CudaStreams, OtherDevicesAreRefused) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) GTEST_SKIP() << "this needs two GPUs";
  cudaSetDevice(1);
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  DeviceArray elsewhere(ScalarType::F32, {n});
  expect_error<UsageError>(ErrorCode::BadArgument, {"branches", "device 1 is current"}, [&] { run(nullptr); });
  cudaSetDevice(0);
  expect_error<UsageError>(ErrorCode::BadArgument, {"branches", "stream", "device 1"}, [&] { run(stream); });
  Arguments arguments = forward_arguments();
  arguments["x"] = elsewhere.view();
  expect_error<UsageError>(ErrorCode::BadArgument, {"branches", "'x'", "device 1"},
                           [&] { gradient->forward(arguments); });
  cudaSetDevice(1);
  cudaStreamDestroy(stream);
  elsewhere = {};
  cudaSetDevice(0);
  run(nullptr);
  expect_gradient(0.25f, 0.25f);
}

/// Reads far outside of an array on the GPU, twice, and then runs on the host. Returns whether all three went as they
/// should.
bool fails_and_goes_on() {
  ProgramBuilder p("look_up");
  auto m = p.size("n");
  auto x = p.input<float>("x", {m});
  auto at = p.input<int>("at", {m});
  auto y = p.output<float>("y", {m});
  for (auto i : p.loop("i", 0, m)) y(i) = x(at(i));
  const Program program = p.build();
  CompileOptions options;
  options.target = Target::Cuda;
  options.facts = Facts::Trust;  // else the index is refused before
  std::vector<float> host(8, 3), result(8);
  std::vector<int> indices(8, 1 << 30);
  DeviceArray dx(ScalarType::F32, {8}), dy(ScalarType::F32, {8}), index(ScalarType::I32, {8});
  dx.upload(host.data());
  index.upload(indices.data());
  int failures = 0;
  for (int i = 0; i < 2; ++i) {
    try {
      compile(program, options).run({{"x", dx.view()}, {"at", index.view()}, {"y", dy.view()}});
      dy.download(result.data());
    } catch (const RuntimeError& error) {
      std::fprintf(stderr, "%s\n", error.what());
      failures += error.code() == ErrorCode::DeviceFailed;
    }
  }
  options.target = Target::OpenMP;
  indices.assign(8, 2);
  compile(program, options)
      .run({{"x", view(host.data(), {8})}, {"at", view(indices.data(), {8})}, {"y", view(result.data(), {8})}});
  return failures == 2 && result[7] == 3;
}

/// A kernel that fails takes the device from the process, so that is another process.
TEST(CudaStreamsDeathTest, AFailingKernelIsAnErrorAndTheProcessLivesOn) {
  std::string why;
  if (!has_cuda(&why)) GTEST_SKIP() << why;
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(std::exit(fails_and_goes_on() ? 0 : 1), testing::ExitedWithCode(0),
              "look_up.*failed.*the device is lost.*look_up.*failed");
}

}  // namespace
}  // namespace loopgrad::test
