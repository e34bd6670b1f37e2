// What the user says about derivatives: where they end, and where they are added to.
#include "tests/error/expect_error.h"
#include "tests/gradient/jacobian.h"

namespace loopgrad::test {
namespace {

/// y = stop(s)*x with s = x^2, in a loop that carries it, and a part of the value only.
TEST(StopGradient, IsAConstantToDerivativesOfAllModes) {
  ProgramBuilder p("stopped");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto s = p.scalar<double>("s");
  s = 1.0;
  for (auto i : p.loop("i", 0, n)) {
    s = s * x(i);
    y(i) = stop_gradient(s * s) * x(i) + exp(stop_gradient(x(i)) * x(i));
  }
  const Program program = p.build();
  EXPECT_NE(program.str().find("stop_gradient(s*s)"), std::string::npos) << program.str();
  const Gradient gradient = differentiate(program);
  EXPECT_EQ(gradient.backward.str().find("d_s"), std::string::npos) << "nothing depends on s\n"
                                                                    << gradient.backward.str();
  const Program forward_mode = tangent(program);
  EXPECT_EQ(forward_mode.str().find("t_s"), std::string::npos) << forward_mode.str();
}

/// d/dx of stop(x)*x is x, not 2 x; by the naive tape, the direct one, forward mode, and the second derivative is 0.
TEST(StopGradient, HasTheDerivativeOfWhatIsLeft) {
  ProgramBuilder p("half");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = stop_gradient(x(i)) * x(i);
  const Program program = p.build();
  for (const Variant variant : {Variant::NaiveTape, Variant::Restructured}) {
    const std::string backward = differentiate(program, {.variant = variant}).backward.str();
    const std::size_t only = backward.find("d_x[i] += ");
    EXPECT_NE(only, std::string::npos) << backward;
    EXPECT_NE(backward.find("*stop_gradient(x", only), std::string::npos) << backward;
    EXPECT_EQ(backward.find("d_x[i] += ", only + 1), std::string::npos) << backward;
  }
  const Program second = joined(differentiate(joined(differentiate(program)), {.wrt = {"x"}, .of = {"g_x"}}), "g2_");
  EXPECT_NE(second.str().find("g2_x"), std::string::npos);
}

TEST(Accumulate, AddsToWhatThereIs) {
  ProgramBuilder p("weights");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), w = p.input<double>("w", {1}), unused = p.input<double>("unused", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = w(0) * x(i);
  const Program program = p.build();
  const Gradient gradient = differentiate(program, {.accumulate = {"w", "unused"}});
  for (const char* line : {"inout  f64 d_w[1]", "inout  f64 d_unused[n]", "output f64 d_x[n]"})
    EXPECT_NE(gradient.backward.str().find(line), std::string::npos) << gradient.backward.str();
  EXPECT_EQ(gradient.backward.str().find("d_w[0] = 0"), std::string::npos) << gradient.backward.str();
  EXPECT_EQ(gradient.backward.str().find("d_unused["), gradient.backward.str().rfind("d_unused["))
      << "nothing is stored to it\n"
      << gradient.backward.str();
}

TEST(Accumulate, IsForInputsWhoseGradientIsAskedFor) {
  ProgramBuilder p("roles");
  auto x = p.input<double>("x", {1}), z = p.input<double>("z", {1});
  auto a = p.inout<double>("a", {1});
  a(0) = a(0) * x(0) + z(0);
  const Program program = p.build();
  expect_error<UsageError>(ErrorCode::BadArgument, {"'accumulate' names an in-out", "'a'"},
                           [&] { differentiate(program, {.accumulate = {"a"}}); });
  expect_error<UsageError>(ErrorCode::BadArgument, {"whose gradient is not asked for", "'z'"},
                           [&] { differentiate(program, {.wrt = {"x"}, .accumulate = {"z"}}); });
  expect_error<UsageError>(ErrorCode::BadArgument, {"no such array"},
                           [&] { differentiate(program, {.accumulate = {"q"}}); });
}

}  // namespace
}  // namespace loopgrad::test
