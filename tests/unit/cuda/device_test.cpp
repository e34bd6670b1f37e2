// What needs the CUDA toolkit or a GPU. Skips visibly where there is none.
#include "backends/cuda/emitter.h"
#include "backends/cuda/nvrtc.h"
#include "tests/unit/transforms/passes.h"

#include <loopgrad/loopgrad.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace lg = loopgrad;

namespace {

lg::Program correlation() {
  lg::ProgramBuilder p("correlation");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {n + k - 1});
  auto w = p.input<float>("w", {k});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    for (auto j : p.loop("j", 0, k)) y(i) += x(i + j) * w(j);
  }
  return p.build();
}

std::string source_of(lg::Variant variant) {
  const lg::Gradient gradient = lg::differentiate(correlation(), {.variant = variant});
  const auto mode = variant == lg::Variant::Atomic      ? lg::transforms::SumMode::Atomic
                    : variant == lg::Variant::NaiveTape ? lg::transforms::SumMode::Serial
                                                        : lg::transforms::SumMode::Restructured;
  std::vector<lg::ir::Program> programs;
  for (const lg::Program* p : {&gradient.forward, &gradient.backward})
    programs.push_back(lg::transforms::lowered_to_gpu(p->ir(), mode));
  return lg::backend::emit_cuda(programs).source();
}

TEST(CudaSource, IsAcceptedByNvrtcForTwoArchitectures) {
  if (!lg::backend::has_nvrtc()) GTEST_SKIP() << "no libnvrtc on this machine";
  for (const lg::Variant variant : {lg::Variant::NaiveTape, lg::Variant::Atomic, lg::Variant::Restructured})
    for (const char* architecture : {"sm_80", "sm_90"})
      EXPECT_FALSE(lg::backend::compile_cubin(source_of(variant), architecture, "correlation").empty());
}

TEST(CudaSource, HasAtomicsInTheAtomicVariantOnly) {
  EXPECT_NE(source_of(lg::Variant::Atomic).find("atomicAdd"), std::string::npos);
  EXPECT_EQ(source_of(lg::Variant::Restructured).find("atomic"), std::string::npos);
}

TEST(CudaSource, LargeLiteralsAreOfTheTypeOfIndices) {
  lg::ProgramBuilder p("hashes");
  auto n = p.size("n");
  auto y = p.output<float>("y", {5});
  for (auto k : p.loop("k", 0, 5)) y(k) = 0.0f;
  for (auto i : p.loop("i", 0, n)) y(((i + 1) * lg::Value(std::int64_t{6364136223846793005}) + 12345 - i) % 5) = 1.0f;
  const lg::ir::Program mapped = lg::transforms::lowered_to_gpu(p.build().ir(), lg::transforms::SumMode::Restructured);
  const std::string source = lg::backend::emit_cuda({mapped}).source(lg::backend::KernelForm::Narrow);
  // Its overflow is none to C++, for which the product of positive numbers would be positive.
  EXPECT_NE(source.find("wrapping_mul(int64_t(i_ + 1), int64_t(6364136223846793005))"), std::string::npos) << source;
  if (!lg::backend::has_nvrtc()) GTEST_SKIP() << "no libnvrtc on this machine";
  EXPECT_FALSE(lg::backend::compile_cubin(source, "sm_90", "hashes").empty());
}

// Without that the compiler drops the condition, and takes the remainder for one of numbers without a sign.
TEST(CudaSource, ProductsOfDataAndPowersMayWrapAround) {
  lg::ProgramBuilder p("squares");
  auto n = p.size("n");
  auto a = p.input<std::int64_t>("a", {n});
  auto t = p.input<double>("t", {8});
  auto y = p.output<double>("y", {n}), z = p.output<double>("z", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = t((a(i) * a(i)) % 7);
    z(i) = t((i * i * i * 5) % 7) + t(i % 8);
  }
  const lg::ir::Program mapped = lg::transforms::lowered_to_gpu(p.build().ir(), lg::transforms::SumMode::Restructured);
  const std::string source = lg::backend::emit_cuda({mapped}).source(lg::backend::KernelForm::Wide);
  EXPECT_NE(source.find("floor_mod(wrapping_mul(a_[i_], a_[i_]), "), std::string::npos) << source;
  EXPECT_NE(source.find("floor_mod(wrapping_mul(wrapping_mul("), std::string::npos) << source;
  EXPECT_NE(source.find("t_[i_ % 8]"), std::string::npos) << source;
}

TEST(CudaTarget, SaysWhatIsMissing) {
  std::string why;
  if (lg::has_cuda(&why)) GTEST_SKIP() << "there is a GPU: " << lg::cuda_device_name();
  EXPECT_NE(why.find("Hint"), std::string::npos) << why;
  EXPECT_THROW(compile(correlation(), {.target = lg::Target::Cuda}), lg::Error);
}

class CudaDevice : public testing::Test {
 protected:
  void SetUp() override {
    setenv("LOOPGRAD_CACHE_DIR", LOOPGRAD_TEST_CACHE, 1);
    std::string why;
    if (!lg::has_cuda(&why)) GTEST_SKIP() << why;
  }
};

/// y[v] = the sum of squares of a row, with a maximum: what the threads of a row share.
lg::Program rows_of_a_graph() {
  lg::ProgramBuilder p("rows_of_a_graph");
  auto nodes = p.size("V"), edges = p.size("E");
  auto ptr = p.input<int>("ptr", {nodes + 1});
  auto x = p.input<float>("x", {edges});
  auto y = p.output<float>("y", {nodes});
  p.csr(ptr, edges);
  for (auto v : p.loop("v", 0, nodes)) {
    auto largest = p.scalar<float>("largest", 0), sum = p.scalar<float>("sum", 0);
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) largest.max_with(x(e));
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) sum += x(e) * x(e) + largest;
    y(v) = sum;
  }
  return p.build();
}

TEST_F(CudaDevice, TeamsOfABlockKeepTheirRowsApart) {
  const std::int64_t nodes = 16411;  // above what has eight teams to a block, and no multiple of eight
  std::vector<int> ptr = {0};
  for (std::int64_t v = 0; v < nodes; ++v) ptr.push_back(ptr.back() + static_cast<int>(v % 71));
  const std::int64_t edges = ptr.back();
  std::vector<float> x, y(static_cast<std::size_t>(nodes)), expected;
  for (std::int64_t e = 0; e < edges; ++e) x.push_back(static_cast<float>(e % 13));
  for (std::size_t v = 0; v < y.size(); ++v) {
    float largest = 0, sum = 0;
    for (int e = ptr[v]; e < ptr[v + 1]; ++e) largest = std::max(largest, x[static_cast<std::size_t>(e)]);
    for (int e = ptr[v]; e < ptr[v + 1]; ++e)
      sum += x[static_cast<std::size_t>(e)] * x[static_cast<std::size_t>(e)] + largest;
    expected.push_back(sum);
  }
  const lg::Executable run = compile(rows_of_a_graph(), {.target = lg::Target::Cuda});
  EXPECT_NE(run.source().find("    __syncwarp();\n"), std::string::npos);
  lg::DeviceArray d_ptr(lg::ScalarType::I32, {nodes + 1}), d_x(lg::ScalarType::F32, {edges}),
      d_y(lg::ScalarType::F32, {nodes});
  d_ptr.upload(ptr.data());
  d_x.upload(x.data());
  run.run({{"ptr", d_ptr.view()}, {"x", d_x.view()}, {"y", d_y.view()}});
  d_y.download(y.data());
  EXPECT_EQ(y, expected);
}

TEST_F(CudaDevice, RunsAgainAndAgainWithTheSameBits) {
  const std::int64_t n = 1001, k = 7;
  std::vector<float> x(static_cast<std::size_t>(n + k - 1), 0.5f), w(static_cast<std::size_t>(k), 2),
      y(static_cast<std::size_t>(n));
  lg::DeviceArray dx(lg::ScalarType::F32, {n + k - 1}), dw(lg::ScalarType::F32, {k}), dy(lg::ScalarType::F32, {n});
  dx.upload(x.data());
  dw.upload(w.data());
  const lg::Executable run = compile(correlation(), {.target = lg::Target::Cuda});
  for (int i = 0; i < 3; ++i) {
    run.run({{"x", dx.view()}, {"w", dw.view()}, {"y", dy.view()}});
    dy.download(y.data());
    for (const float value : y) ASSERT_EQ(value, 7.0f);
  }
}

TEST_F(CudaDevice, BlocksOfAGridThatWouldBeTooTallTakeTurns) {
  lg::ProgramBuilder p("tall");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) y(i, j) = 2.0f * x(i, j);
  const std::int64_t rows = 4'300'001, columns = 3;  // 64 rows a block: more than 65535 of them
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k % 1000);
  lg::DeviceArray dx(lg::ScalarType::F32, {rows, columns}), dy(lg::ScalarType::F32, {rows, columns});
  dx.upload(values.data());
  compile(p.build(), {.target = lg::Target::Cuda}).run({{"x", dx.view()}, {"y", dy.view()}});
  std::vector<float> result(values.size());
  dy.download(result.data());
  for (std::size_t k = 0; k < values.size(); ++k) ASSERT_EQ(result[k], 2 * values[k]) << k;
}

/// A scan within a branch is one block's, which declares more shared memory than the launch may add without a word.
TEST_F(CudaDevice, SharedMemoryThatIsDeclaredAndThatComesWithTheLaunch) {
  lg::ProgramBuilder p("stepwise");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {2});
  auto total = p.output<double>("total", {});
  total() = 0.0;
  for (auto i : p.loop("i", 0, n)) {
    p.when(total() > 0.2, [&] { a(0) += tanh(a(0)); }).otherwise([&] {
      for ([[maybe_unused]] auto j : p.loop("j", 0, i)) {
        a(0) = 0.6 * total() - 0.1;
        total() += tanh(0.9 * a(1));
      }
    });
    total() += 0.01;
  }
  const lg::Program program = p.build();
  std::vector<double> expected(3), actual(3);
  for (const lg::Target target : {lg::Target::Interpreter, lg::Target::Cuda}) {
    std::vector<double>& result = target == lg::Target::Cuda ? actual : expected;
    double start[2] = {0.5, 0.01};
    lg::DeviceArray device(lg::ScalarType::F64, {2}), device_total(lg::ScalarType::F64, {});
    if (target == lg::Target::Cuda) {
      device.upload(start);
      compile(program, {.target = target}).run({{"a", device.view()}, {"total", device_total.view()}}, {{"n", 5}});
      device.download(result.data());
      device_total.download(&result[2]);
      continue;
    }
    result = {start[0], start[1], 0};
    compile(program, {.target = target})
        .run({{"a", lg::view(result.data(), {2})}, {"total", lg::view(&result[2], {})}}, {{"n", 5}});
  }
  for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(actual[k], expected[k], 1e-12) << k;
}

TEST_F(CudaDevice, RefusesHostMemory) {
  std::vector<float> x(16), w(7), y(10);
  const lg::Executable run = compile(correlation(), {.target = lg::Target::Cuda});
  const lg::Arguments host = {
      {"x", lg::view(x.data(), {16})}, {"w", lg::view(w.data(), {7})}, {"y", lg::view(y.data(), {10})}};
  EXPECT_THROW(run.run(host), lg::UsageError);
  const lg::Arguments lie = {{"x", lg::device_view(x.data(), {16})},
                             {"w", lg::device_view(w.data(), {7})},
                             {"y", lg::device_view(y.data(), {10})}};
  EXPECT_THROW(run.run(lie), lg::UsageError);
}

TEST_F(CudaDevice, SurvivesRunningOutOfMemory) {
  try {
    lg::DeviceArray huge(lg::ScalarType::F32, {std::int64_t{1} << 40});
    FAIL() << "4 TiB were allocated";
  } catch (const lg::RuntimeError& error) {
    EXPECT_EQ(error.code(), lg::ErrorCode::OutOfMemory);
  }
  lg::DeviceArray small(lg::ScalarType::F32, {16});
  EXPECT_NE(small.data(), nullptr);
}

}  // namespace
