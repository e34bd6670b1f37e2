// Bounds of loops that do not fit, and steps: a loop runs as many trips as it says, or is refused before anything is
// written.
#include "tests/error/expect_error.h"
#include "tests/support/test_cache.h"

#include <loopgrad/compile.h>

#include <cstdlib>
#include <functional>
#include <limits>
#include <vector>

namespace loopgrad::test {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

/// A sum over the loop, which passes share out over blocks.
Program counting(const std::function<std::pair<Value, Value>(const Value&)>& bounds, const LoopOptions& options = {}) {
  ProgramBuilder p("counting");
  auto m = p.size("m");
  auto x = p.input<double>("x", {1});
  auto y = p.inout<double>("y", {});
  const auto [lower, upper] = bounds(m);
  for (auto i : p.loop("i", lower, upper, options)) y() += x(0) + cast<double>(i) * 0.0;
  return p.build();
}

class LoopBounds : public testing::TestWithParam<Target> {
 protected:
  double trips(const Program& program, std::int64_t m) {
    double count = 0, x = 1;
    compile(program, {.target = GetParam()}).run({{"x", view(&x, {1})}, {"y", view(&count, {})}}, {{"m", m}});
    return count;
  }
  void expect_refused(const std::function<std::pair<Value, Value>(const Value&)>& bounds, std::int64_t m,
                      const std::string& part) {
    const Program program = counting(bounds);
    expect_error<UsageError>(ErrorCode::BadSize, {"counting", "'i'", part}, [&] { trips(program, m); });
    double y = 0, x = 1;
    const GradientExecutable gradient = compile_gradient(program, {.wrt = {"x"}}, {.target = GetParam()});
    expect_error<UsageError>(ErrorCode::BadSize, {"counting", "'i'", part}, [&] {
      gradient.forward({{"x", view(&x, {1})}, {"y", view(&y, {})}}, {{"m", m}});
    });
    EXPECT_EQ(y, 0);
  }
};

TEST_P(LoopBounds, ThatWrapAreRefused) {
  const auto square = [](const Value& m) { return std::pair{Value(0), m * m}; };
  expect_refused(square, std::int64_t{1} << 32, "the bound m*m does not fit in 64 bits");
  EXPECT_EQ(trips(counting(square), 9), 81);
  expect_refused([](const Value& m) { return std::pair{Value(0), m + largest}; }, 5, "does not fit in 64 bits");
  expect_refused([](const Value& m) { return std::pair{-m * m, Value(0)}; }, std::int64_t{1} << 32, "does not fit");
}

TEST_P(LoopBounds, OfWhilesMayBeIteratorsOfParallelNests) {
  ProgramBuilder p("halvings");
  auto rows = p.size("rows"), m = p.size("m");
  auto y = p.output<double>("y", {rows, m});
  for (auto r : p.loop("r", 0, rows))
    for (auto i : p.loop("i", 0, m)) {
      auto s = p.scalar<double>("s", 1.0);
      for (auto k : p.loop_while("k", i, [&](const Value&) { return s > 0.2; })) s = s * 0.5 + cast<double>(k) * 0.0;
      y(r, i) = s;
    }
  std::vector<double> y_values(2 * 5);
  compile(p.build(), {.target = GetParam()}).run({{"y", view(y_values.data(), {2, 5})}});
  EXPECT_EQ(y_values, (std::vector<double>{1, 0.5, 0.25, 0.125, 0.125, 1, 0.5, 0.25, 0.125, 0.125}));
}

TEST_P(LoopBounds, OfWhilesMayBeNegativeForSomeSizes) {
  ProgramBuilder p("chains");
  auto m = p.size("m");
  auto x = p.input<double>("x", {m});
  auto y = p.output<double>("y", {m});
  for (auto i : p.loop("i", 0, m)) y(i) = x(i);
  for (auto i : p.loop("i", 1, m)) {
    auto s = p.scalar<double>("s", 1.0);
    for ([[maybe_unused]] auto k : p.loop_while("k", i, [&](const Value&) { return s < 2.0; })) s = s * exp(s * x(i));
    y(i) += s;
  }
  const GradientExecutable g = compile_gradient(p.build(), {.wrt = {"x"}}, {.target = GetParam()});
  EXPECT_NO_THROW(g.forward({{"x", view<double>(nullptr, {0})}, {"y", view<double>(nullptr, {0})}}));
  std::vector<double> x_values = {0.5, 1, 1}, y_values(3);
  g.forward({{"x", view(x_values.data(), {3})}, {"y", view(y_values.data(), {3})}});
  EXPECT_GT(y_values[1], 2);
}

TEST_P(LoopBounds, ThatPassesCannotComputeWithAreRefused) {
  expect_refused([](const Value& m) { return std::pair{Value(0), m}; }, largest, "the bound m is 9223372036854775807");
  expect_refused([](const Value& m) { return std::pair{m - 5, m}; }, largest, "further from zero than");
  const std::int64_t furthest = std::int64_t{1} << 61;
  EXPECT_EQ(trips(counting([](const Value& m) { return std::pair{m - 5, m}; }), furthest), 5);
}

TEST_P(LoopBounds, StepsAreCountedUpToTheLargest) {
  const std::int64_t furthest = std::int64_t{1} << 61;
  const auto to_size = [](const Value& m) { return std::pair{Value(0), m}; };
  EXPECT_EQ(trips(counting(to_size, {.step = furthest}), 5), 1);
  EXPECT_EQ(trips(counting(to_size, {.step = furthest}), furthest), 1);
  EXPECT_EQ(trips(counting(to_size, {.step = furthest}), 0), 0);
  EXPECT_EQ(trips(counting([](const Value& m) { return std::pair{-m, m}; }, {.step = furthest}), furthest), 2);
  EXPECT_EQ(trips(counting(to_size, {.step = 3, .descending = true}), 10), 4);
}

INSTANTIATE_TEST_SUITE_P(Targets, LoopBounds, testing::Values(Target::OpenMP, Target::Interpreter),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST(RecordedLoops, RefuseConstantsThatAreTooLarge) {
  const auto whole = [](const Value& m) { return std::pair{Value(0), m}; };
  expect_error<UsageError>(ErrorCode::BadProgram, {"loop 'i' has the step 4611686018427387904"},
                           [&] { counting(whole, {.step = std::int64_t{1} << 62}); });
  expect_error<UsageError>(ErrorCode::BadProgram, {"the bound 9223372036854775802 of loop 'i'"}, [] {
    counting([](const Value&) { return std::pair{Value(largest - 5), Value(largest)}; });
  });
}

}  // namespace
}  // namespace loopgrad::test
