// False facts on every target: an error that names array, element and the fact's line, before anything is written.
#include "tests/error/compiled_case.h"
#include "tests/error/expect_error.h"
#include "tests/support/test_cache.h"

#include <loopgrad/compile.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace loopgrad::test {
namespace {

using Case = CompiledCase;

class FalseFacts : public testing::TestWithParam<Case> {};

constexpr std::int64_t n = 3000, m = 700;

/// y[i] = x[idx[i]]^2 with one fact about idx.
struct Gather {
  using State = std::function<void(ProgramBuilder&, const ArrayHandle&, const Value&)>;

  explicit Gather(const State& state) {
    ProgramBuilder p("gather");
    auto count = p.size("n"), extent = p.size("m");
    auto idx = p.input<int>("idx", {count});
    auto x = p.input<float>("x", {extent});
    auto y = p.output<float>("y", {count});
    state(p, idx, extent);
    for (auto i : p.loop("i", 0, count)) y(i) = x(idx(i)) * x(idx(i));
    program = std::make_unique<Program>(p.build());
  }

  Arguments arguments() {
    return {{"idx", view(indices.data(), {n})}, {"x", view(x.data(), {m})}, {"y", view(y.data(), {n})}};
  }

  std::unique_ptr<Program> program;
  std::vector<int> indices = std::vector<int>(n, 0);
  std::vector<float> x = std::vector<float>(m, 3), y = std::vector<float>(n, -7), d_y = std::vector<float>(n, 1);
  std::vector<float> d_x = std::vector<float>(m, -7);
};

void expect_false(const Case& which, Gather& gather, const std::string& part, std::uint32_t line) {
  const GradientExecutable g =
      compile_gradient(*gather.program, {.wrt = {"x"}, .variant = which.variant}, which.options());
  const ErrorInfo info =
      expect_error<RuntimeError>(ErrorCode::BadFact, {"'idx'", part}, [&] { g.forward(gather.arguments()); });
  EXPECT_EQ(info.array, "idx");
  EXPECT_EQ(info.location.line, line);
  EXPECT_EQ(gather.y, std::vector<float>(n, -7)) << "facts are verified before anything is written";
  if (which.variant != Variant::Restructured) return;
  const Executable run = compile(*gather.program, which.options());
  expect_error<RuntimeError>(ErrorCode::BadFact, {"'idx'", part}, [&] { run.run(gather.arguments()); });
  EXPECT_EQ(gather.y, std::vector<float>(n, -7));
}

TEST_P(FalseFacts, RangeNamesTheElement) {
  std::uint32_t line = 0;
  Gather gather([&](ProgramBuilder& p, const ArrayHandle& idx, const Value& extent) {
    line = std::source_location::current().line() + 1;
    p.in_range(idx, 0, extent);
  });
  gather.indices[1234] = m;
  expect_false(GetParam(), gather, "idx[1234] = 700 is not in the stated range [0, 700)", line);
  gather.indices[1234] = 0;
  gather.indices[n - 1] = -1;
  expect_false(GetParam(), gather, "idx[2999] = -1 is not in the stated range", line);
}

TEST_P(FalseFacts, AboutBoundsOfLoopsEndAtOnce) {
  ProgramBuilder p("lattice");
  auto rows = p.size("rows"), m = p.size("m"), k = p.size("k");
  auto length = p.input<std::int64_t>("length", {rows}), width = p.input<std::int64_t>("width", {rows});
  auto x = p.input<float>("x", {rows, m, k});
  auto y = p.output<float>("y", {rows});
  p.in_range(length, 0, m + 1);
  p.in_range(width, 0, k + 1);
  for (auto r : p.loop("r", 0, rows)) {
    y(r) = 0.0f;
    for (auto i : p.loop("i", 0, length(r)))
      for (auto j : p.loop("j", 0, width(r))) y(r) += x(r, i, j) * x(r, i, j);
  }
  const GradientExecutable g =
      compile_gradient(p.build(), {.wrt = {"x"}, .variant = GetParam().variant}, GetParam().options());
  std::vector<std::int64_t> lengths = {2, 3}, widths = {4, 1};
  std::vector<float> xs(2 * 3 * 4, 1), ys(2);
  const auto forward = [&] {
    g.forward({{"length", view(lengths.data(), {2})},
               {"width", view(widths.data(), {2})},
               {"x", view(xs.data(), {2, 3, 4})},
               {"y", view(ys.data(), {2})}});
  };
  forward();
  EXPECT_EQ(ys, (std::vector<float>{8, 3}));
  lengths[1] = std::int64_t{1} << 60;  // trips that nobody would wait for
  expect_error<RuntimeError>(ErrorCode::BadFact, {"'length'", "is not in the stated range [0, 4)"}, forward);
}

TEST_P(FalseFacts, OrderNamesTheElements) {
  std::uint32_t line = 0;
  Gather gather([&](ProgramBuilder& p, const ArrayHandle& idx, const Value&) {
    line = std::source_location::current().line() + 1;
    p.sorted(idx);
  });
  for (std::int64_t i = 0; i < n; ++i) gather.indices[static_cast<std::size_t>(i)] = static_cast<int>(i / 5);
  gather.indices[2000] = 7;
  expect_false(GetParam(), gather, "idx[2000] = 7 follows idx[1999] = 399", line);
}

TEST_P(FalseFacts, OneToOneNamesBothElements) {
  for (const bool bounded : {true, false}) {
    std::uint32_t line = 0;
    Gather gather([&](ProgramBuilder& p, const ArrayHandle& idx, const Value& extent) {
      if (bounded) p.in_range(idx, 0, extent + 100000);
      line = std::source_location::current().line() + 1;
      p.injective(idx);
    });
    std::iota(gather.indices.begin(), gather.indices.end(), 0);
    std::reverse(gather.indices.begin(), gather.indices.end());
    gather.indices[17] = gather.indices[2500];
    expect_false(GetParam(), gather, "idx[17] = 499 and idx[2500] = 499", line);
  }
}

TEST_P(FalseFacts, EndsAndOrderOfRows) {
  const std::int64_t rows = 400, entries = 3 * rows;
  ProgramBuilder p("rows");
  auto v_count = p.size("V"), e_count = p.size("E");
  auto ptr = p.input<std::int64_t>("ptr", {v_count + 1});
  auto x = p.inout<float>("x", {v_count});
  const std::uint32_t line = std::source_location::current().line() + 1;
  p.csr(ptr, e_count);
  for (auto v : p.loop("v", 0, v_count))
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) x(v) = x(v) * x(v) + cast<float>(e);
  const Program program = p.build();
  const GradientExecutable g = compile_gradient(program, {.variant = GetParam().variant}, GetParam().options());
  std::vector<std::int64_t> good(rows + 1);
  for (std::size_t v = 0; v < good.size(); ++v) good[v] = 3 * static_cast<std::int64_t>(v);
  const auto expect = [&](std::size_t at, std::int64_t value, const std::string& part) {
    std::vector<std::int64_t> rows_at = good;
    rows_at[at] = value;
    std::vector<float> xs(rows, 0.5f);
    const ErrorInfo info = expect_error<RuntimeError>(ErrorCode::BadFact, {"'ptr'", part}, [&] {
      g.forward({{"ptr", view(rows_at.data(), {rows + 1})}, {"x", view(xs.data(), {rows})}}, {{"E", entries}});
    });
    EXPECT_EQ(info.location.line, line);
    EXPECT_EQ(xs, std::vector<float>(rows, 0.5f));
  };
  expect(0, -40, "ptr[0] = -40 instead of 0");
  expect(rows, entries + 50, "ptr[400] = 1250 instead of 1200");
  expect(5, 2000000000, "follows ptr[5] = 2000000000");
}

TEST_P(FalseFacts, AreTrustedOnRequestAndOtherwiseLookedAtInEveryCall) {
  Gather gather([&](ProgramBuilder& p, const ArrayHandle& idx, const Value&) { p.in_range(idx, 0, 10); });
  gather.indices[5] = 11;  // within x all the same
  CompileOptions options = GetParam().options();
  options.facts = Facts::Trust;
  const GradientOptions gradient{.wrt = {"x"}, .variant = GetParam().variant};
  EXPECT_NO_THROW(compile_gradient(*gather.program, gradient, options).forward(gather.arguments()));
  options.facts = Facts::Verify;
  const GradientExecutable g = compile_gradient(*gather.program, gradient, options);
  EXPECT_THROW(g.forward(gather.arguments()), RuntimeError);
  gather.indices[5] = 9;
  EXPECT_NO_THROW(g.forward(gather.arguments()));
  gather.indices[5] = 10;  // the same memory
  EXPECT_THROW(g.forward(gather.arguments()), RuntimeError);
}

TEST_P(FalseFacts, AboutAVersionAreLookedForOnce) {
  Gather gather([&](ProgramBuilder& p, const ArrayHandle& idx, const Value&) { p.in_range(idx, 0, 10); });
  const GradientExecutable g =
      compile_gradient(*gather.program, {.wrt = {"x"}, .variant = GetParam().variant}, GetParam().options());
  Arguments arguments = gather.arguments();
  arguments["idx"] = versioned(arguments["idx"], 1);
  EXPECT_NO_THROW(g.forward(arguments));
  gather.indices[5] = 11;  // a broken promise, which shows that nothing is read again
  EXPECT_NO_THROW(g.forward(arguments));
  arguments["idx"].version = 2;
  EXPECT_THROW(g.forward(arguments), RuntimeError);
  EXPECT_THROW(g.forward(arguments), RuntimeError) << "what was false has not been verified";
}

TEST_P(FalseFacts, OfOtherArraysGivenToBackward) {
  Gather gather([&](ProgramBuilder& p, const ArrayHandle& idx, const Value& extent) { p.in_range(idx, 0, extent); });
  const GradientExecutable g =
      compile_gradient(*gather.program, {.wrt = {"x"}, .variant = GetParam().variant}, GetParam().options());
  Arguments arguments = gather.arguments();
  g.forward(arguments);
  arguments["d_y"] = view(gather.d_y.data(), {n});
  arguments["d_x"] = view(gather.d_x.data(), {m});
  std::vector<int> other = gather.indices;
  other[7] = -5;
  Arguments with_other = arguments;
  with_other["idx"] = view(other.data(), {n});
  if (GetParam().variant != Variant::NaiveTape) {  // which has the indices on its stack
    expect_error<RuntimeError>(ErrorCode::BadFact, {"idx[7] = -5"}, [&] { g.backward(with_other); });
    EXPECT_EQ(gather.d_x, std::vector<float>(m, -7));
  }
  g.backward(arguments);
  EXPECT_EQ(gather.d_x[0], 6.0f * n);
}

TEST(FactsInF64, AreVerifiedBesideArraysOfOtherTypes) {
  Gather gather([&](ProgramBuilder& p, const ArrayHandle& idx, const Value& extent) { p.in_range(idx, 0, extent); });
  std::vector<double> x(m, 3), y(n, -7);
  const Executable run = compile(*gather.program, {.target = Target::Interpreter, .f64 = true});
  const Arguments arguments = {
      {"idx", view(gather.indices.data(), {n})}, {"x", view(x.data(), {m})}, {"y", view(y.data(), {n})}};
  run.run(arguments);
  EXPECT_EQ(y[5], 9);
  gather.indices[5] = -1;
  expect_error<RuntimeError>(ErrorCode::BadFact, {"idx[5] = -1"}, [&] { run.run(arguments); });
}

INSTANTIATE_TEST_SUITE_P(Targets, FalseFacts,
                         testing::Values(Case{Target::OpenMP, Variant::Restructured},
                                         Case{Target::OpenMP, Variant::Atomic},
                                         Case{Target::OpenMP, Variant::NaiveTape},
                                         Case{Target::Interpreter, Variant::Restructured},
                                         Case{Target::Interpreter, Variant::Restructured, true}),
                         case_name);

}  // namespace
}  // namespace loopgrad::test
