// What is kept on a device while index arrays are versioned, also across graphs of the caller's. Skips visibly where
// there is no GPU.
#include "tests/unit/cuda/own_stream.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <loopgrad/loopgrad.h>

#include <cstdlib>
#include <optional>

namespace loopgrad::test {
namespace {

/// y[i, j] = x[idx[i], j]: its gradient sorts the iterations by idx, and finds them again while that is versioned.
class CudaVersions : public testing::Test {
 protected:
  static constexpr std::int64_t n = 50000, m = 2000, width = 3;

  void SetUp() override {
    setenv("LOOPGRAD_CACHE_DIR", LOOPGRAD_TEST_CACHE, 1);
    std::string why;
    if (!has_cuda(&why)) GTEST_SKIP() << why;
    for (DeviceArray* idx : {&first, &second}) *idx = {ScalarType::I32, {n}};
    for (DeviceArray* row : {&x, &d_x}) *row = {ScalarType::F32, {m, width}};
    for (DeviceArray* terms : {&y, &d_y}) *terms = {ScalarType::F32, {n, width}};
    ProgramBuilder p("gather");
    auto count = p.size("n"), extent = p.size("m"), columns = p.size("width");
    auto idx = p.input<int>("idx", {count});
    auto x = p.input<float>("x", {extent, columns});
    auto y = p.output<float>("y", {count, columns});
    p.in_range(idx, 0, extent);
    for (auto i : p.loop("i", 0, count))
      for (auto j : p.loop("j", 0, columns)) y(i, j) = x(idx(i), j);
    gradient.emplace(compile_gradient(p.build(), {.wrt = {"x"}}, {.target = Target::Cuda}));
    ASSERT_NE(gradient->source().find("idx_seen"), std::string::npos) << "nothing is kept";
    std::vector<float> incoming(n * width);
    for (std::size_t i = 0; i < incoming.size(); ++i) incoming[i] = static_cast<float>(i / width % 7);
    d_y.upload(incoming.data());
  }

  void choose(DeviceArray& idx, int factor) {
    std::vector<int> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<int>(i * static_cast<std::size_t>(factor) % m);
    idx.upload(values.data());
  }
  void run(const DeviceArray& idx, std::uint64_t version, void* stream = nullptr) {
    const Arguments forward = {{"idx", versioned(idx.view(), version)}, {"x", x.view()}, {"y", y.view()}};
    Arguments backward = forward;
    backward["d_y"] = d_y.view();
    backward["d_x"] = d_x.view();
    gradient->forward(forward, {}, {stream});
    gradient->backward(backward, {}, {stream});
  }
  void expect_right(int factor, const char* what) {
    std::vector<float> due(m * width), found(m * width);
    for (std::size_t i = 0; i < n * width; ++i)
      due[i / width * static_cast<std::size_t>(factor) % m * width + i % width] += static_cast<float>(i / width % 7);
    d_x.download(found.data());
    EXPECT_EQ(found, due) << what;
  }
  cudaGraphExec_t captured(const DeviceArray& idx, std::uint64_t version) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t result = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    run(idx, version, own.stream);
    EXPECT_EQ(cudaStreamEndCapture(own.stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&result, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    return result;
  }
  void replay(cudaGraphExec_t graph) {
    const std::vector<float> none(m * width, -1);
    d_x.upload(none.data());
    EXPECT_EQ(cudaGraphLaunch(graph, own.stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(own.stream), cudaSuccess);
  }

  OwnStream own;
  DeviceArray first, second, x, y, d_x, d_y;
  std::optional<GradientExecutable> gradient;
};

TEST_F(CudaVersions, AreSortedOnce) {
  choose(first, 3);
  for (int repetition = 0; repetition < 3; ++repetition) {
    run(first, 1);
    expect_right(3, "the same version");
  }
  choose(first, 7);
  run(first, 1);  // a broken promise, which shows that nothing is sorted again
  expect_right(3, "the old order");
  run(first, 2);
  expect_right(7, "the next version");
  choose(first, 11);
  run(first, 0);
  expect_right(11, "without a version");
}

TEST_F(CudaVersions, WithoutOneTheyAreCompared) {
  for (const int factor : {3, 3, 7, 11, 3}) {
    choose(first, factor);
    for (int repetition = 0; repetition < 2; ++repetition) {
      run(first, 0);
      expect_right(factor, "compared");
    }
  }
}

TEST_F(CudaVersions, AGraphFindsOutWhetherTheyChanged) {
  choose(first, 3);
  run(first, 0);
  const cudaGraphExec_t graph = captured(first, 0);
  for (const int factor : {3, 3, 7, 7, 3}) {
    choose(first, factor);
    replay(graph);
    expect_right(factor, "in the graph");
    run(first, 0);
    expect_right(factor, "beside it");
  }
  cudaGraphExecDestroy(graph);
}

TEST_F(CudaVersions, AGraphKeepsTheOrderItWasCapturedWith) {
  choose(first, 3);
  choose(second, 7);
  run(first, 1);
  const cudaGraphExec_t graph = captured(first, 1);
  for (std::uint64_t version = 1; version < 9; ++version) run(second, version);
  expect_right(7, "runs go on with other indices");
  replay(graph);
  expect_right(3, "the graph's order is still there");
  run(second, 8);
  expect_right(7, "and that of the last run as well");
  cudaGraphExecDestroy(graph);
}

TEST_F(CudaVersions, AGraphSortsWhatHasNoVersion) {
  choose(first, 3);
  choose(second, 7);
  run(first, 0);
  const cudaGraphExec_t graph = captured(first, 0);
  run(second, 1);
  choose(first, 11);
  replay(graph);
  expect_right(11, "sorted anew in the graph");
  run(second, 1);
  expect_right(7, "whose memory no other run uses");
  run(first, 0);  // facts are verified by a run before the capture
  const cudaGraphExec_t next = captured(first, 0);
  replay(next);
  expect_right(11, "a second capture");
  cudaGraphExecDestroy(graph);
  cudaGraphExecDestroy(next);
}

}  // namespace
}  // namespace loopgrad::test
