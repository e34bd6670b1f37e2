// What is kept from run to run while index arrays are `versioned`, on every target: right as long as versions are, and
// what a caller who breaks the promise gets.
#include "backends/orders.h"
#include "tests/error/compiled_case.h"
#include "tests/support/test_cache.h"

#include <loopgrad/compile.h>
#include <loopgrad/error.h>

#include <array>
#include <cstdlib>
#include <thread>

namespace loopgrad::test {
namespace {

class Versions : public testing::TestWithParam<CompiledCase> {};

constexpr std::int64_t n = 2500, m = 61, width = 9;  // enough for an inverse of the index array

/// y[i, j] = x[idx[i], j]*w[i], several times: the gradient by x is a scatter in a time loop.
Program rows() {
  ProgramBuilder p("rows");
  auto count = p.size("n"), extent = p.size("m"), d = p.size("d"), steps = p.size("steps");
  auto idx = p.input<int>("idx", {count});
  auto x = p.input<float>("x", {extent, d});
  auto w = p.input<float>("w", {count});
  auto y = p.output<float>("y", {count, d});
  p.in_range(idx, 0, extent);
  for (auto i : p.loop("z", 0, count))
    for (auto j : p.loop("zj", 0, d)) y(i, j) = 0.0f;
  for ([[maybe_unused]] auto t : p.loop("t", 0, steps))
    for (auto i : p.loop("i", 0, count))
      for (auto j : p.loop("j", 0, d)) y(i, j) += x(idx(i), j) * w(i);
  return p.build();
}

struct Caller {
  explicit Caller(const CompiledCase& which)
      : gradient(compile_gradient(rows(), {.wrt = {"x"}, .variant = which.variant}, which.options())) {}

  Arguments arguments(std::uint64_t version) {
    Arguments all = {{"idx", versioned(view(idx.data(), {n}), version)},
                     {"x", view(x.data(), {m, width})},
                     {"w", view(w.data(), {n})},
                     {"y", view(y.data(), {n, width})},
                     {"d_y", view(d_y.data(), {n, width})},
                     {"d_x", view(d_x.data(), {m, width})}};
    return all;
  }
  void choose(int factor) {
    for (std::int64_t i = 0; i < n; ++i) idx[static_cast<std::size_t>(i)] = static_cast<int>((i * factor + i / 7) % m);
  }
  std::vector<float> expected() const {
    std::vector<float> result(m * width, 0);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < width; ++j)
        result[static_cast<std::size_t>(idx[i]) * width + j] += 2 * w[i] * d_y[i * width + j];
    return result;
  }
  void run(std::uint64_t version) {
    Arguments forward = arguments(version);
    forward.erase("d_y");
    forward.erase("d_x");
    gradient.forward(forward, {{"steps", 2}});
    gradient.backward(arguments(version), {{"steps", 2}});
  }
  void expect_right(std::uint64_t version) {
    std::fill(d_x.begin(), d_x.end(), -7.0f);
    run(version);
    const std::vector<float> due = expected();
    for (std::size_t k = 0; k < due.size(); ++k) ASSERT_NEAR(d_x[k], due[k], 1e-3) << k << ", version " << version;
  }

  GradientExecutable gradient;
  std::vector<int> idx = std::vector<int>(n, 0);
  std::vector<float> x = std::vector<float>(m * width, 0.5f), w = std::vector<float>(n, 0.25f),
                     y = std::vector<float>(n * width), d_y = std::vector<float>(n * width, 0.125f),
                     d_x = std::vector<float>(m * width);
};

TEST_P(Versions, ArraysWithoutOneAreCompared) {
  Caller run(GetParam());
  for (int factor = 1; factor < 5; ++factor) {
    run.choose(factor);
    for (int repetition = 0; repetition < 2; ++repetition) run.expect_right(0);
  }
  // The first element, the last one, one of the last piece.
  for (const std::int64_t i : {std::int64_t{0}, n - 1, n - 3}) {
    int& one = run.idx[static_cast<std::size_t>(i)];
    one = static_cast<int>((one + 1) % m);
    run.expect_right(0);
  }
  // Others between: with a version, that fails, the same ones in other memory.
  run.choose(7);
  run.expect_right(3);
  run.choose(4);
  run.expect_right(0);
  run.idx[100] = static_cast<int>(m);
  EXPECT_THROW(run.run(0), RuntimeError);
  run.choose(4);
  run.expect_right(0);
  std::vector<int> copy = run.idx;
  run.idx.swap(copy);
  run.expect_right(0);
}

TEST_P(Versions, TheirMemoryIsOfOneSize) {
  if (GetParam().variant != Variant::Restructured) GTEST_SKIP() << "keeps nothing";
  const Executable executable = compile(rows(), GetParam().options());
  std::vector<int> idx(n);
  std::vector<float> x(m * width, 1.0f), w(n, 1.0f), y(n * width);
  for (std::size_t i = 0; i < m; ++i) x[i * width] = static_cast<float>(i);
  for (const std::int64_t count : {n, n / 2, n, std::int64_t{0}, n}) {
    for (std::size_t i = 0; i < n; ++i) idx[i] = static_cast<int>((i * static_cast<std::size_t>(count + 3)) % m);
    executable.run({{"idx", view(idx.data(), {count})},
                    {"x", view(x.data(), {m, width})},
                    {"w", view(w.data(), {count})},
                    {"y", view(y.data(), {count, width})}},
                   {{"steps", 1}});
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      ASSERT_EQ(y[i * width], static_cast<float>(idx[i])) << i << " of " << count;
  }
}

TEST_P(Versions, CountUpWhenContentsChange) {
  Caller run(GetParam());
  for (int factor = 1; factor < 5; ++factor) {
    run.choose(factor);
    for (int repetition = 0; repetition < 3; ++repetition) run.expect_right(static_cast<std::uint64_t>(factor));
  }
  run.choose(9);
  run.expect_right(0);
  run.choose(4);
  run.expect_right(4);
}

TEST_P(Versions, AreTakenAtTheirWord) {
  if (GetParam().variant != Variant::Restructured) GTEST_SKIP() << "keeps nothing";
  Caller run(GetParam());
  run.choose(1);
  run.expect_right(3);
  const std::vector<float> before = run.d_x;
  run.choose(2);
  run.run(3);  // a broken promise, which shows that nothing is sorted again
  EXPECT_EQ(run.d_x, before);
  run.expect_right(4);
}

TEST_P(Versions, MoreSetsInTurnThanAreKept) {
  std::vector<std::vector<int>> sets;
  Caller run(GetParam());
  for (int k = 0; k < 7; ++k) {
    run.choose(k + 1);
    sets.push_back(run.idx);
  }
  for (int round = 0; round < 2; ++round)
    for (std::vector<int>& set : sets) {
      run.idx.swap(set);  // other memory with the same version
      run.expect_right(1);
      run.idx.swap(set);
    }
}

TEST_P(Versions, CopiesKeepTheirOwn) {
  Caller first(GetParam()), second(GetParam());
  second.gradient = first.gradient;
  first.choose(1);
  second.choose(5);
  for (int round = 0; round < 2; ++round) {
    first.expect_right(1);
    second.expect_right(1);
  }
}

TEST_P(Versions, ARunThatFailsLeavesNothingBehind) {
  Caller run(GetParam());
  run.choose(1);
  run.idx[100] = static_cast<int>(m);
  EXPECT_THROW(run.run(1), RuntimeError);
  run.idx[100] = 3;
  run.expect_right(2);
}

TEST_P(Versions, OnSeveralThreads) {
  const Executable executable = compile(rows(), GetParam().options());
  std::vector<std::thread> threads;
  std::array<bool, 4> right{};
  for (std::size_t k = 0; k < right.size(); ++k)
    threads.emplace_back([&, k] {
      std::vector<int> idx(n);
      std::vector<float> x(m * width), w(n, 1.0f), y(n * width);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
      for (std::size_t i = 0; i < n; ++i) idx[i] = static_cast<int>((i * (k + 2)) % m);
      bool same = true;
      for (int repetition = 0; repetition < 5; ++repetition) {
        executable.run({{"idx", versioned(view(idx.data(), {n}), 1)},
                        {"x", view(x.data(), {m, width})},
                        {"w", view(w.data(), {n})},
                        {"y", view(y.data(), {n, width})}},
                       {{"steps", 1}});
        for (std::size_t i = 0; i < n; ++i) same &= y[i * width + 4] == x[static_cast<std::size_t>(idx[i]) * width + 4];
      }
      right[k] = same;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, (std::array<bool, 4>{true, true, true, true}));
}

/// Memory of the host that says it is being captured.
class Recording final : public backend::Memory {
 public:
  bool capturing = false;
  Device device() const override { return Device::Host; }
  backend::OwnedArray make_array(ScalarType type, const std::vector<std::int64_t>& shape) const override {
    return backend::host_memory().make_array(type, shape);
  }
  void copy_in(void*, const void*, std::int64_t) const override {}
  void copy_out(void*, const void*, std::int64_t, void*) const override {}
  void synchronize() const override {}
  bool is_capturing(void*) const override { return capturing; }
  View on_host(const View& view, std::deque<HostArray>&) const override { return view; }
  void check_pointer(const ir::ArrayDecl&, const View&, int, const std::string&) const override {}
};

TEST(Orders, AreCapturedWithMemoryOfARunHoweverSmallGraphsBeforeWere) {
  const ir::Symbol size = ir::make_symbol("n");
  const ir::Array idx = ir::make_array("idx", ScalarType::I32, {ir::var(size)}, ir::ArrayRole::Input, {});
  const ir::Array order = ir::make_array("order", ScalarType::I32, {ir::var(size)}, ir::ArrayRole::InOut, {});
  ir::Program program;
  program.arrays = {idx};
  std::vector<int> indices(1000);
  for (const std::uint64_t version : {0, 1}) {
    Recording memory;
    backend::Orders orders({{order}, ir::make_symbol("stale"), {idx}}, memory, "p");
    const auto run = [&](std::int64_t n, bool capturing) -> const void* {
      memory.capturing = capturing;
      const View view = versioned(loopgrad::view(indices.data(), {n}), version);
      backend::Orders::Turn turn = orders.begin(program, {{{size, n}}, {view}}, nullptr);
      turn.succeed();
      return turn.view_of(order).data;
    };
    EXPECT_THROW(run(10, true), UsageError) << "nothing to be had yet";
    const void* const small = run(10, false);
    EXPECT_EQ(run(10, true), small);
    EXPECT_THROW(run(1000, true), UsageError);
    const void* const large = run(1000, false);
    EXPECT_NE(large, small) << "which the graph uses";
    EXPECT_EQ(run(1000, true), large);
    const void* const after = run(20, false);
    EXPECT_NE(after, small);
    EXPECT_NE(after, large);
  }
}

/// One program's `stale` in a sequence of runs.
TEST(Orders, AreComparedWithARunOfTheSameSizes) {
  const ir::Symbol size = ir::make_symbol("n");
  const ir::Array idx = ir::make_array("idx", ScalarType::I32, {ir::var(size)}, ir::ArrayRole::Input, {});
  const ir::Array order = ir::make_array("order", ScalarType::I32, {ir::var(size)}, ir::ArrayRole::InOut, {});
  ir::Program program;
  program.arrays = {idx};
  std::vector<int> indices(1000);
  Recording memory;
  backend::Orders orders({{order}, ir::make_symbol("stale"), {idx}, true}, memory, "p");
  const auto run = [&](std::int64_t n, std::uint64_t version, bool succeeds = true, bool capturing = false) {
    memory.capturing = capturing;
    const View view = versioned(loopgrad::view(indices.data(), {n}), version);
    backend::Orders::Turn turn = orders.begin(program, {{{size, n}}, {view}}, nullptr);
    if (succeeds) turn.succeed();
    return turn.stale();
  };
  EXPECT_EQ(run(10, 0), 1) << "nothing is there yet";
  EXPECT_EQ(run(10, 0), 2);
  EXPECT_EQ(run(20, 0), 1) << "of another size";
  EXPECT_EQ(run(20, 0), 2);
  EXPECT_EQ(run(10, 0), 2) << "sizes take turns";
  EXPECT_EQ(run(20, 0), 2);
  EXPECT_EQ(run(20, 0, false), 2);
  EXPECT_EQ(run(20, 0), 1) << "the run before failed";
  EXPECT_EQ(run(20, 5), 2) << "a version that nobody knows may still be what was seen";
  EXPECT_EQ(run(20, 5), 0);
  EXPECT_EQ(run(20, 0), 1) << "what has a version stays";
  EXPECT_EQ(run(20, 5), 0);
  EXPECT_EQ(run(20, 0, true, true), 2) << "a graph, with the memory of the run before";
  EXPECT_EQ(run(20, 0), 1) << "which is the graph's now";
  EXPECT_EQ(run(20, 0, true, true), 2) << "two graphs share memory of one size";
  EXPECT_EQ(run(30, 0), 1);
  EXPECT_EQ(run(30, 0, true, true), 2);
}

INSTANTIATE_TEST_SUITE_P(Ways, Versions,
                         testing::Values(CompiledCase{Target::OpenMP, Variant::Restructured},
                                         CompiledCase{Target::OpenMP, Variant::Atomic},
                                         CompiledCase{Target::Interpreter, Variant::Restructured, true}),
                         case_name);

}  // namespace
}  // namespace loopgrad::test
