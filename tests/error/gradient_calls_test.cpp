// Gradients called in the wrong order, with the wrong sizes or arrays.
#include "tests/error/expect_error.h"
#include "tests/support/test_cache.h"

#include <loopgrad/compile.h>

#include <cmath>
#include <cstdlib>
#include <functional>

namespace loopgrad::test {
namespace {

/// x is overwritten by its square, twice: both values are needed, so there is a tape.
Program squares() {
  ProgramBuilder p("squares");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  for (auto i : p.loop("i", 0, n)) x(i) = x(i) * x(i);
  for (auto i : p.loop("j", 0, n)) x(i) = x(i) * x(i);
  return p.build();
}

/// Four values are kept for each step.
Program steps() {
  ProgramBuilder p("steps");
  auto n = p.size("n"), count = p.size("count");
  auto x = p.inout<float>("x", {n});
  for (auto t : p.loop("t", 0, count)) {
    (void)t;
    for (auto i : p.loop("i", 0, n)) x(i) = x(i) * x(i);
  }
  return p.build();
}

struct Case {
  Target target;
  Variant variant;
};
void PrintTo(const Case& c, std::ostream* out) { *out << name_of(c.target) << ", " << name_of(c.variant); }

class GradientCalls : public testing::TestWithParam<Case> {
 protected:
  GradientExecutable build() const {
    GradientOptions gradient;
    gradient.variant = GetParam().variant;
    CompileOptions options;
    options.target = GetParam().target;
    return compile_gradient(squares(), gradient, options);
  }
  std::vector<float> x = {1, 2, 3, 4}, d = {1, 1, 1, 1};
};

TEST_P(GradientCalls, ForwardBackwardAndBackwardAgain) {
  const GradientExecutable g = build();
  for (int round = 0; round < 2; ++round) {
    x = {1, 2, 3, 4};
    g.forward({{"x", view(x.data(), {4})}});
    EXPECT_EQ(x, (std::vector<float>{1, 16, 81, 256}));
    EXPECT_GT(g.tape_bytes(), 0);
    for (int repeat = 0; repeat < 2; ++repeat) {  // the tape outlives a backward run
      d = {1, 1, 1, 1};
      g.backward({{"x", view(x.data(), {4})}, {"d_x", view(d.data(), {4})}});
      EXPECT_EQ(d, (std::vector<float>{4, 32, 108, 256}));
    }
  }
  // Another size: the tape is resized.
  std::vector<float> x2(1000, 2), d2(1000, 1);
  g.forward({{"x", view(x2.data(), {1000})}});
  g.backward({{"x", view(x2.data(), {1000})}, {"d_x", view(d2.data(), {1000})}});
  EXPECT_EQ(d2, std::vector<float>(1000, 32));
}

/// x[i] is squared len[i] times: how much there is to keep only the data tells.
TEST_P(GradientCalls, TapesAreSizedByData) {
  ProgramBuilder p("powers");
  auto n = p.size("n");
  auto len = p.input<std::int32_t>("len", {n});
  auto y = p.inout<double>("y", {n});
  for (auto i : p.loop("i", 0, n))
    for ([[maybe_unused]] auto j : p.loop("j", 0, len(i))) y(i) = y(i) * y(i);
  GradientOptions gradient;
  gradient.variant = GetParam().variant;
  CompileOptions options;
  options.target = GetParam().target;
  const GradientExecutable g = compile_gradient(p.build(), gradient, options);
  std::int64_t bytes = 0;
  for (const int longest : {3, 1, 5}) {
    std::vector<std::int32_t> lengths;
    std::vector<double> values, grads(7, 1), expected_values, expected_grads;
    for (int i = 0; i < 7; ++i) {
      lengths.push_back(i % (longest + 1));
      values.push_back(1 + 0.125 * i);
      const double power = std::pow(2.0, lengths.back());
      expected_values.push_back(std::pow(values.back(), power));
      expected_grads.push_back(power * std::pow(values.back(), power - 1));
    }
    g.forward({{"len", view(lengths.data(), {7})}, {"y", view(values.data(), {7})}});
    EXPECT_GT(g.tape_bytes(), 0);
    if (longest == 5) {
      EXPECT_GT(g.tape_bytes(), bytes);
    }
    bytes = g.tape_bytes();
    g.backward({{"len", view(lengths.data(), {7})}, {"y", view(values.data(), {7})}, {"d_y", view(grads.data(), {7})}});
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_NEAR(values[i], expected_values[i], 1e-9 * expected_values[i]);
      EXPECT_NEAR(grads[i], expected_grads[i], 1e-9 * expected_grads[i]);
    }
  }
}

TEST(Executables, ThatHoldNothingRefuseEverything) {
  ProgramBuilder p("filled");
  auto x = p.input<float>("x", {1});
  auto y = p.output<float>("y", {1});
  y(0) = 2 * x(0);
  const Program program = p.build();
  Executable run = compile(program, {.target = Target::Interpreter});
  GradientExecutable gradient = compile_gradient(program, {}, {.target = Target::Interpreter});
  const Executable runs = std::move(run);
  const GradientExecutable works = std::move(gradient);
  const auto refused = [](auto&& use) {
    try {
      use();
      ADD_FAILURE() << "was not refused";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("holds nothing"), std::string::npos) << error.what();
      EXPECT_FALSE(error.hint().empty());
    }
  };
  for (const Executable& empty : {run, Executable(nullptr)}) {
    refused([&] { empty.run({}); });
    refused([&] { empty.source(); });
    refused([&] { empty.build_ms(); });
    refused([&] { empty.from_cache(); });
  }
  for (const GradientExecutable& empty : {gradient, GradientExecutable(nullptr)}) {
    refused([&] { empty.forward({}); });
    refused([&] { empty.backward({}); });
    refused([&] { empty.tape_bytes(); });
    refused([&] { empty.kernel_count(); });
    refused([&] { empty.gradient(); });
    refused([&] { empty.source(); });
    refused([&] { empty.build_ms(); });
    refused([&] { empty.from_cache(); });
  }
  const Program none(nullptr);
  refused([&] { compile(none); });
  refused([&] { compile_gradient(none); });
  refused([&] { differentiate(none); });
  refused([&] { tangent(none); });
  refused([&] { Schedule schedule(none); });
  refused([&] { compile(Gradient{none, none, none, {}, {}}); });
}

TEST_P(GradientCalls, BackwardBeforeForward) {
  const GradientExecutable g = build();
  expect_error<UsageError>(ErrorCode::BadArgument, {"squares", "before forward()"}, [&] {
    g.backward({{"x", view(x.data(), {4})}, {"d_x", view(d.data(), {4})}});
  });
  EXPECT_EQ(d, std::vector<float>(4, 1));
}

TEST_P(GradientCalls, BackwardWithOtherSizes) {
  const GradientExecutable g = build();
  g.forward({{"x", view(x.data(), {4})}});
  const auto after_forward = x;
  expect_error<UsageError>(ErrorCode::BadSize, {"squares", "'n' = 3", "forward() ran with 4"}, [&] {
    g.backward({{"x", view(x.data(), {4})}, {"d_x", view(d.data(), {4})}}, {{"n", 3}});
  });
  expect_error<UsageError>(ErrorCode::BadShape, {"squares", "'d_x'", "expected n = 4"}, [&] {
    g.backward({{"x", view(x.data(), {4})}, {"d_x", view(d.data(), {3})}});
  });
  EXPECT_EQ(x, after_forward);
  EXPECT_EQ(d, std::vector<float>(4, 1));
}

TEST_P(GradientCalls, UnknownAndMissingArrays) {
  const GradientExecutable g = build();
  g.forward({{"x", view(x.data(), {4})}});
  expect_error<UsageError>(ErrorCode::BadArgument, {"squares", "'dx'"}, [&] {
    g.backward({{"dx", view(d.data(), {4})}, {"d_x", view(d.data(), {4})}});
  });
  expect_error<UsageError>(ErrorCode::BadArgument, {"squares", "'d_x'", "missing"}, [&] {
    g.backward({{"x", view(x.data(), {4})}});
  });
}

TEST_P(GradientCalls, AFailedForwardLeavesTheLastOneInPlace) {
  const GradientExecutable g = build();
  g.forward({{"x", view(x.data(), {4})}});
  expect_error<UsageError>(ErrorCode::BadArgument, {"squares", "'x'", "missing"}, [&] { g.forward({}); });
  g.backward({{"x", view(x.data(), {4})}, {"d_x", view(d.data(), {4})}});
  EXPECT_EQ(d, (std::vector<float>{4, 32, 108, 256}));
}

/// Positions written by hand: a matrix to loopgrad, a vector to whoever calls it.
TEST_P(GradientCalls, ArgumentsHaveTheShapeThatWasDeclared) {
  ProgramBuilder p("positions");
  auto n = p.size("n"), m = p.size("m");
  auto u = p.inout<float>("u", {n * m});
  for (auto i : p.loop("i", 0, n - 1))
    for (auto j : p.loop("j", 0, m)) u(i * m + j) = u(i * m + j) * u((i + 1) * m + j);
  CompileOptions options;
  options.target = GetParam().target;
  const GradientExecutable g = compile_gradient(p.build(), {.variant = GetParam().variant}, options);
  std::vector<float> values = {1, 2, 3, 4, 5, 6}, adjoint(6, 1);  // rows 1 2, 3 4 and 5 6
  g.forward({{"u", view(values.data(), {6})}}, {{"n", 3}, {"m", 2}});
  EXPECT_EQ(values, (std::vector<float>{3, 8, 15, 24, 5, 6}));
  g.backward({{"u", view(values.data(), {6})}, {"d_u", view(adjoint.data(), {6})}}, {{"n", 3}, {"m", 2}});
  EXPECT_EQ(adjoint, (std::vector<float>{3, 4, 1 + 5, 2 + 6, 1 + 3, 1 + 4}));
  expect_error<UsageError>(ErrorCode::BadShape, {"u", "2 dimensions, expected 1"}, [&] {
    g.forward({{"u", view(values.data(), {3, 2})}}, {{"n", 3}, {"m", 2}});
  });
  expect_error<UsageError>(ErrorCode::BadShape, {"u", "n*m = 6"}, [&] {
    g.forward({{"u", view(values.data(), {5})}}, {{"n", 3}, {"m", 2}});
  });
}

INSTANTIATE_TEST_SUITE_P(
    Targets, GradientCalls,
    testing::Values(Case{Target::OpenMP, Variant::NaiveTape}, Case{Target::OpenMP, Variant::Atomic},
                    Case{Target::OpenMP, Variant::Restructured}, Case{Target::Interpreter, Variant::NaiveTape},
                    Case{Target::Interpreter, Variant::Restructured}),
    [](const auto& which) {
      std::string name = std::string(name_of(which.param.target)) + "_" + name_of(which.param.variant);
      for (char& c : name)
        if (c == '-') c = '_';
      return name;
    });

/// y = x^2 d_y: the incoming gradient would have the name of the input.
Program with_name_of_a_gradient(const char* name) {
  ProgramBuilder p("clash");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n}), other = p.input<float>(name, {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = x(i) * x(i) * other(i);
  return p.build();
}

TEST(Names, OfDerivativesAreNoOtherArrays) {
  for (const Variant variant : {Variant::Atomic, Variant::Restructured}) {  // the naive tape reads the stack instead
    for (const char* name : {"d_y", "d_x"})
      expect_error<UsageError>(ErrorCode::BadArgument, {name, "rename"}, [&] {
        differentiate(with_name_of_a_gradient(name), {.wrt = {"x"}, .variant = variant});
      });
    EXPECT_NO_THROW(differentiate(with_name_of_a_gradient("d_z"), {.wrt = {"x"}, .variant = variant}));
  }
  expect_error<UsageError>(ErrorCode::BadArgument, {"t_y", "rename"},
                           [] { tangent(with_name_of_a_gradient("t_y"), {.wrt = {"x"}}); });
}

TEST(OneMap, ServesForwardAndBackward) {
  std::vector<double> x = {1, 2}, y(2), d_x(2), d_y = {1, 10};
  ProgramBuilder p("square");
  const Value n = p.size("n");
  const ArrayHandle in = p.input<double>("x", {n}), out = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) out(i) = in(i)*in(i);
  const Arguments all = {{"x", view(x.data(), {2})},
                         {"y", view(y.data(), {2})},
                         {"d_x", view(d_x.data(), {2})},
                         {"d_y", view(d_y.data(), {2})}};
  const GradientExecutable gradient = compile_gradient(p.build(), {}, {.target = Target::Interpreter});
  gradient.forward(all);
  gradient.backward(all);
  EXPECT_EQ(d_x, (std::vector<double>{2, 40}));
  Arguments more = all;
  more["z"] = all.at("x");
  EXPECT_THROW(gradient.forward(more), UsageError);
}

/// As soon as sizes are known, before anything is written; fewer steps fit.
TEST(TapeBudget, ARunThatTakesMoreIsRefused) {
  for (const Target target : {Target::Interpreter, Target::OpenMP}) {
    GradientExecutable run = compile_gradient(steps(), {.max_tape_bytes = 120}, {.target = target});
    std::vector<float> x = {1, 1.5F, 1.25F, 0.5F}, d = {1, 1, 1, 1};
    const Arguments arguments = {{"x", view(x.data(), {4})}, {"d_x", view(d.data(), {4})}};
    expect_error<RuntimeError>(ErrorCode::OutOfMemory,
                               {"the tape takes at least", "more than max_tape_bytes = 120", "steps_forward"}, [&] {
                                 run.forward(arguments, {{"count", 1000}});
                               });
    EXPECT_EQ(x[1], 1.5F);
    run.forward(arguments, {{"count", 9}});
    run.backward(arguments, {{"count", 9}});
    EXPECT_EQ(d[0], 512);
  }
}

TEST(GradientOptionValues, ThatMeanNothingAreRefused) {
  const Program program = squares();
  const auto expect_refused = [&](const GradientOptions& options, const std::string& name) {
    for (const auto& derive : std::initializer_list<std::function<void()>>{[&] { differentiate(program, options); },
                                                                           [&] { tangent(program, options); }})
      EXPECT_NE(expect_error<UsageError>(ErrorCode::BadArgument, {"squares", name}, derive).hint, "");
  };
  for (const char* directions : {"-3", "1e6", "two words", "k-1", "0", "7k"})
    expect_refused({.directions = directions}, std::string(directions));
  EXPECT_NO_THROW(differentiate(program, {.directions = "many_2"}));
  expect_refused({.max_tape_bytes = -1}, "`max_tape_bytes` is -1");
  expect_refused({.variant = static_cast<Variant>(7)}, "`variant` is 7");
}

TEST(CompileOptionValues, ThatMeanNothingAreRefused) {
  const Program program = squares();
  const CompileOptions options{.target = Target::Interpreter, .facts = static_cast<Facts>(9)};
  expect_error<UsageError>(ErrorCode::BadArgument, {"`facts` is 9"}, [&] { compile(program, options); });
  expect_error<UsageError>(ErrorCode::BadArgument, {"`facts` is 9"}, [&] { compile_gradient(program, {}, options); });
  const CompileOptions sizes{.target = Target::Interpreter, .expected_sizes = {{"n", -5}}};
  expect_error<UsageError>(ErrorCode::BadArgument, {"'n' is -5"}, [&] { compile(program, sizes); });
  Gradient gradient = differentiate(program);
  gradient.variant = static_cast<Variant>(7);
  expect_error<UsageError>(ErrorCode::BadArgument, {"`variant` is 7"}, [&] { compile(gradient); });
}

}  // namespace
}  // namespace loopgrad::test
