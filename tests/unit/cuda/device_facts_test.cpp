// False facts on a device: an error that names array, element and the fact's line, before anything is written. Skips
// visibly where there is no GPU.
#include "tests/error/expect_error.h"

#include <gtest/gtest.h>
#include <loopgrad/loopgrad.h>

#include <cstdlib>
#include <functional>
#include <numeric>

namespace loopgrad::test {
namespace {

constexpr std::int64_t n = 3000, m = 700;

class DeviceFacts : public testing::Test {
 protected:
  using State = std::function<void(ProgramBuilder&, const ArrayHandle&, const Value&)>;

  void SetUp() override {
    setenv("LOOPGRAD_CACHE_DIR", LOOPGRAD_TEST_CACHE, 1);
    std::string why;
    if (!has_cuda(&why)) GTEST_SKIP() << why;
  }

  /// y[i] = x[idx[i]]^2 with one fact about idx.
  static GradientExecutable gather(const State& state, Variant variant, Facts facts = Facts::Verify) {
    ProgramBuilder p("gather");
    auto count = p.size("n"), extent = p.size("m");
    auto idx = p.input<int>("idx", {count});
    auto x = p.input<float>("x", {extent});
    auto y = p.output<float>("y", {count});
    state(p, idx, extent);
    for (auto i : p.loop("i", 0, count)) y(i) = x(idx(i)) * x(idx(i));
    return compile_gradient(p.build(), {.wrt = {"x"}, .variant = variant}, {.target = Target::Cuda, .facts = facts});
  }

  /// Runs with such indices; what is in y afterwards.
  static std::vector<float> run(const GradientExecutable& g, const std::vector<int>& indices) {
    DeviceArray idx(ScalarType::I32, {n}), x(ScalarType::F32, {m}), y(ScalarType::F32, {n});
    const std::vector<float> values(m, 3), before(n, -7);
    idx.upload(indices.data());
    x.upload(values.data());
    y.upload(before.data());
    std::vector<float> after(n);
    try {
      g.forward({{"idx", idx.view()}, {"x", x.view()}, {"y", y.view()}});
    } catch (const Error&) {
      cuda_synchronize();
      y.download(after.data());
      EXPECT_EQ(after, before) << "facts are verified before anything is written";
      throw;
    }
    cuda_synchronize();
    y.download(after.data());
    return after;
  }

  static void expect_false(const State& state, std::uint32_t line, const std::vector<int>& indices,
                           const std::string& part) {
    for (const Variant variant : {Variant::Restructured, Variant::Atomic})
      for (const Facts facts : {Facts::Verify, Facts::CheckAccesses}) {
        const GradientExecutable g = gather(state, variant, facts);
        const ErrorInfo info =
            expect_error<RuntimeError>(ErrorCode::BadFact, {"'idx'", part}, [&] { run(g, indices); });
        EXPECT_EQ(info.array, "idx");
        EXPECT_EQ(info.location.line, line);
      }
  }
};

TEST_F(DeviceFacts, RangeNamesTheElement) {
  std::vector<int> indices(n, 0);
  indices[1234] = m;
  const std::uint32_t line = std::source_location::current().line() + 2;
  const State state = [](ProgramBuilder& p, const ArrayHandle& idx, const Value& extent) {
    p.in_range(idx, 0, extent);
  };
  expect_false(state, line, indices, "idx[1234] = 700 is not in the stated range [0, 700)");
  indices[1234] = 0;
  EXPECT_EQ(run(gather(state, Variant::Restructured), indices), std::vector<float>(n, 9));
}

TEST_F(DeviceFacts, OrderNamesTheElements) {
  std::vector<int> indices(n);
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int>(i / 5);
  indices[2000] = 7;
  const std::uint32_t line = std::source_location::current().line() + 1;
  const State state = [](ProgramBuilder& p, const ArrayHandle& idx, const Value&) { p.sorted(idx); };
  expect_false(state, line, indices, "idx[2000] = 7 follows idx[1999] = 399");
}

TEST_F(DeviceFacts, OneToOneNamesBothElements) {
  std::vector<int> indices(n);
  std::iota(indices.begin(), indices.end(), 0);
  std::reverse(indices.begin(), indices.end());
  indices[17] = indices[2500];
  const std::uint32_t line = std::source_location::current().line() + 2;
  const State state = [](ProgramBuilder& p, const ArrayHandle& idx, const Value& extent) {
    p.injective(idx);
    p.in_range(idx, 0, extent + 100000);
  };
  expect_false(state, line, indices, "idx[17] = 499 and idx[2500] = 499");
}

TEST_F(DeviceFacts, EndsAndOrderOfRows) {
  const std::int64_t rows = 400, entries = 3 * rows;
  ProgramBuilder p("rows");
  auto v_count = p.size("V"), e_count = p.size("E");
  auto ptr = p.input<std::int64_t>("ptr", {v_count + 1});
  auto x = p.inout<float>("x", {v_count});
  const std::uint32_t line = std::source_location::current().line() + 1;
  p.csr(ptr, e_count);
  for (auto v : p.loop("v", 0, v_count))
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) x(v) = x(v) * x(v) + cast<float>(e);
  const GradientExecutable g = compile_gradient(p.build(), {}, {.target = Target::Cuda});
  std::vector<std::int64_t> good(rows + 1);
  for (std::size_t v = 0; v < good.size(); ++v) good[v] = 3 * static_cast<std::int64_t>(v);
  const auto expect = [&](std::size_t at, std::int64_t value, const std::string& part) {
    std::vector<std::int64_t> rows_at = good;
    rows_at[at] = value;
    const std::vector<float> before(rows, 0.5f);
    DeviceArray device_rows(ScalarType::I64, {rows + 1}), xs(ScalarType::F32, {rows});
    device_rows.upload(rows_at.data());
    xs.upload(before.data());
    const ErrorInfo info = expect_error<RuntimeError>(ErrorCode::BadFact, {"'ptr'", part}, [&] {
      g.forward({{"ptr", device_rows.view()}, {"x", xs.view()}}, {{"E", entries}});
    });
    EXPECT_EQ(info.location.line, line);
    std::vector<float> after(rows);
    cuda_synchronize();
    xs.download(after.data());
    EXPECT_EQ(after, before);
  };
  expect(0, -40, "ptr[0] = -40 instead of 0");
  expect(rows, entries + 50, "ptr[400] = 1250 instead of 1200");
  expect(5, 2000000000, "follows ptr[5] = 2000000000");
}

TEST_F(DeviceFacts, TripsBeyondAPromiseAreLeftOutAndAnError) {
  ProgramBuilder p("trips");
  auto count = p.size("n");
  auto most = p.input<int>("most", {count});
  auto y = p.output<float>("y", {count});
  for (auto i : p.loop("i", count)) {
    y(i) = 0.0f;
    for ([[maybe_unused]] auto k : p.loop("k", 0, most(i) + 0, {.at_most = {5}})) y(i) += 1.0f;
  }
  const Executable run = compile(p.build(), {.target = Target::Cuda});
  std::vector<int> trips(n, 4);
  trips[100] = 6;
  DeviceArray device_trips(ScalarType::I32, {n}), ys(ScalarType::F32, {n});
  device_trips.upload(trips.data());
  EXPECT_THROW(run.run({{"most", device_trips.view()}, {"y", ys.view()}}), RuntimeError);
  trips[100] = 5;
  device_trips.upload(trips.data());
  run.run({{"most", device_trips.view()}, {"y", ys.view()}});
  std::vector<float> sums(n);
  cuda_synchronize();
  ys.download(sums.data());
  EXPECT_EQ(sums[100], 5);
  EXPECT_EQ(sums[101], 4);
}

}  // namespace
}  // namespace loopgrad::test
