// The check that users call: right gradients pass, wrong derivatives and kinks are named.
#include "tests/gradient/shared_programs.h"

#include <gtest/gtest.h>
#include <loopgrad/gradcheck.h>
#include <loopgrad/loopgrad.h>

#include <cmath>

namespace loopgrad::test {
namespace {

const CompileOptions interpreted{.target = Target::Interpreter, .checked = true};

/// y = |x| w + max(x, w)
Program kinked() {
  ProgramBuilder p("kinked");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n}), w = p.input<float>("w", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = abs(x(i)) * w(i) + max(x(i), w(i));
  return p.build();
}

Gradcheck check_kinked(std::vector<float> x) {
  std::vector<float> w = {0.5f, 0.75f, -0.25f};
  return gradcheck(kinked(), {{"x", view(x.data(), {3})}, {"w", view(w.data(), {3})}}, {}, {.compile = interpreted});
}

TEST(Gradcheck, ASmoothProgramPassesAllTests) {
  std::vector<float> a(2 * 16);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = 0.1f * static_cast<float>(i * i % 7) + (i % 5 == 0 ? 3 : 0);
  const std::vector<float> before = a;
  const Gradcheck check = gradcheck(inverse_4x4(), {{"a", view(a.data(), {2, 4, 4})}});
  EXPECT_TRUE(check.ok()) << check.str();
  EXPECT_EQ(check.target, "openmp");
  EXPECT_EQ(check.directions, 32 + 2);
  EXPECT_LT(check.differences, 1e-5);
  EXPECT_LT(check.dot_product, 2e-4);
  EXPECT_GT(check.dot_product, 1e-12) << "it is computed in f32";
  EXPECT_NEAR(check.taylor_rate, 2, 0.2);
  EXPECT_TRUE(check.kinks.empty());
  EXPECT_EQ(a, before);
}

TEST(Gradcheck, AKinkIsNamedWithItsElementAndItsLine) {
  EXPECT_TRUE(check_kinked({0.25f, -0.5f, 0.5f}).kinks.empty());
  const Gradcheck check = check_kinked({0.25f, 0.0f, 0.5f});
  EXPECT_TRUE(check.ok()) << check.str();
  ASSERT_FALSE(check.kinks.empty());
  const GradcheckFinding& kink = check.kinks.front();
  EXPECT_EQ(kink.array, "x");
  EXPECT_EQ(kink.element, 1);
  EXPECT_NE(kink.where.line, 0u);
  EXPECT_NE(kink.text.find("x[1]"), std::string::npos) << kink.text;
  EXPECT_NE(kink.text.find("abs at "), std::string::npos) << kink.text;
  EXPECT_NE(kink.text.find("gradcheck_test.cpp"), std::string::npos) << kink.text;
  EXPECT_EQ(kink.text.find("max at "), std::string::npos) << "that one changes nothing: " << kink.text;
}

TEST(Gradcheck, ATieOfMaxIsNamed) {
  const Gradcheck check = check_kinked({0.5f, -0.5f, 0.5f});
  ASSERT_FALSE(check.kinks.empty());
  EXPECT_NE(check.kinks.front().text.find("max at "), std::string::npos) << check.str();
}

/// x stop(x) has the derivative x; along w, which is not stopped, differences still count.
TEST(Gradcheck, ForwardModeDecidesWhereGradientsStop) {
  ProgramBuilder p("stopped");
  auto x = p.input<double>("x", {3}), w = p.input<double>("w", {3});
  auto y = p.output<double>("y", {3});
  for (auto i : p.loop("i", 0, 3)) y(i) = x(i) * stop_gradient(x(i)) + sin(w(i));
  std::vector<double> at = {0.25, -0.5, 0.5}, w_at = {1, 2, 3};
  const Gradcheck check =
      gradcheck(p.build(), {{"x", view(at.data(), {3})}, {"w", view(w_at.data(), {3})}}, {}, {.compile = interpreted});
  EXPECT_TRUE(check.ok()) << check.str();
  EXPECT_EQ(check.stopped, 3 + 2) << "the elements of x, and all at random";
  EXPECT_TRUE(check.kinks.empty()) << check.str();
  EXPECT_NE(check.str().find("stop_gradient"), std::string::npos) << check.str();
}

/// A tangent of one's own is none of what is computed, which is not the fault of a stop_gradient.
TEST(Gradcheck, ATangentOfOnesOwnIsNamed) {
  ProgramBuilder p("straight");
  auto x = p.input<double>("x", {3}), y = p.output<double>("y", {3});
  p.custom_gradient({y}, {x},
                    {.forward =
                         [&] {
                           for (auto i : p.loop("i", 0, 3)) y(i) = floor(x(i));
                         },
                     .adjoint =
                         [&](const Derivatives& d) {
                           for (auto i : p.loop("i", 0, 3)) d(x)(i) += d(y)(i);
                         },
                     .tangent =
                         [&](const Derivatives& d) {
                           for (auto i : p.loop("i", 0, 3)) d(y)(i) = d(x)(i);
                         }});
  std::vector<double> at = {0.25, -0.5, 0.75};
  const Gradcheck check = gradcheck(p.build(), {{"x", view(at.data(), {3})}}, {}, {.compile = interpreted});
  EXPECT_TRUE(check.ok()) << check.str();
  EXPECT_EQ(check.stopped, 3 + 2);
  EXPECT_NE(check.str().find("see through the tangent of the custom gradient at gradcheck_test.cpp:"),
            std::string::npos)
      << check.str();
  EXPECT_EQ(check.str().find("stop_gradient"), std::string::npos) << check.str();
}

/// Forward mode is that of the region, so that it finds a rule that is wrong.
TEST(Gradcheck, AWrongCustomGradientIsFound) {
  for (const double factor : {2.0, 2.001}) {
    ProgramBuilder p("square");
    auto x = p.input<double>("x", {3}), y = p.output<double>("y", {3});
    p.custom_gradient({y}, {x},
                      {.forward =
                           [&] {
                             for (auto i : p.loop("i", 0, 3)) y(i) = x(i) * x(i);
                           },
                       .adjoint =
                           [&](const Derivatives& d) {
                             for (auto i : p.loop("i", 0, 3)) d(x)(i) += factor * x(i) * d(y)(i);
                           }});
    std::vector<double> at = {0.25, -0.5, 0.75};
    const Gradcheck check = gradcheck(p.build(), {{"x", view(at.data(), {3})}}, {}, {.compile = interpreted});
    EXPECT_EQ(check.ok(), factor == 2) << check.str();
    EXPECT_EQ(check.stopped, 0);
  }
}

/// A derivative that is not that of the values: an integer that a float decides hides what depends on it.
TEST(Gradcheck, AStaircaseIsNoDerivativeAndItsStepIsNamed) {
  ProgramBuilder p("stairs");
  auto x = p.input<double>("x", {2}), v = p.input<double>("v", {2});
  auto y = p.output<double>("y", {2});
  for (auto i : p.loop("i", 0, 2)) y(i) = v(i) + cast<double>(cast<std::int64_t>(x(i) * 1e9)) * 1e-9;
  std::vector<double> at = {0.25, 0.75}, v_at = {1, 2};
  const Gradcheck check =
      gradcheck(p.build(), {{"x", view(at.data(), {2})}, {"v", view(v_at.data(), {2})}}, {}, {.compile = interpreted});
  ASSERT_FALSE(check.ok()) << check.str();
  const GradcheckFinding& f = check.findings.front();
  EXPECT_EQ(f.test, "differences");
  EXPECT_EQ(f.array, "x");
  EXPECT_EQ(f.found, 0);
  EXPECT_NE(f.text.find("the cast to an integer at "), std::string::npos) << f.text;
  for (const GradcheckFinding& other : check.findings) EXPECT_NE(other.array, "v") << "that one is right";
}

TEST(Gradcheck, ABranchInALoopWithTripsFromDataIsNamed) {
  ProgramBuilder p("trips");
  auto n = p.size("n");
  auto trips = p.input<int>("trips", {n});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<double>("s", 0.0);
    for (auto k : p.loop("k", 0, trips(i))) {
      (void)k;
      p.when(x(i) > 1.0, [&] { s += x(i) * x(i); }).otherwise([&] { s -= x(i); });
    }
    y(i) = s;
  }
  std::vector<int> count = {2, 0, 3};
  std::vector<double> at = {0.5, 1.0, 1.0};
  const Gradcheck check = gradcheck(p.build(), {{"trips", view(count.data(), {3})}, {"x", view(at.data(), {3})}}, {},
                                    {.compile = interpreted});
  EXPECT_TRUE(check.ok()) << check.str();
  ASSERT_FALSE(check.kinks.empty());
  EXPECT_EQ(check.kinks.front().element, 2) << "element 1 has no trips: " << check.str();
  EXPECT_NE(check.kinks.front().text.find("the branch at "), std::string::npos) << check.str();
}

TEST(Gradcheck, AToleranceThatRoundingExceedsFails) {
  std::vector<float> x = {0.25f, -0.5f, 0.5f}, w = {0.5f, 0.75f, -0.25f};
  ProgramBuilder p("thirds");
  auto u = p.input<float>("u", {3});
  auto y = p.output<float>("y", {3});
  for (auto i : p.loop("i", 0, 3)) y(i) = sin(u(i) / 3.0f) * exp(u(i));
  const Arguments arguments = {{"u", view(x.data(), {3})}};
  const Program program = p.build();
  EXPECT_TRUE(gradcheck(program, arguments).ok());
  const Gradcheck check = gradcheck(program, arguments, {}, {.tolerance = 1e-14});
  ASSERT_FALSE(check.ok()) << check.str();
  EXPECT_EQ(check.findings.front().test, "dot product");
  EXPECT_EQ(check.findings.front().array, "u");
  EXPECT_NE(check.str().find("WRONG"), std::string::npos);
}

TEST(Gradcheck, StridedAndPartialRequestsAreChecked) {
  std::vector<double> both = {0.5, 9, 0.75, 9, -0.25, 9}, w = {1, 2, 3};
  ProgramBuilder p("dots");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), v = p.input<double>("v", {n});
  auto y = p.output<double>("y", {}), z = p.output<double>("z", {n});
  y() = 0.0;
  for (auto i : p.loop("i", 0, n)) {
    y() += x(i) * v(i);
    z(i) = exp(x(i));
  }
  View strided = view(both.data(), {3});
  strided.strides = {2};
  const Gradcheck check = gradcheck(p.build(), {{"x", strided}, {"v", view(w.data(), {3})}}, {},
                                    {.gradient = {.wrt = {"x"}, .of = {"y"}}, .compile = interpreted});
  EXPECT_TRUE(check.ok()) << check.str();
  EXPECT_EQ(check.directions, 3 + 2);
  EXPECT_TRUE(std::isinf(check.taylor_rate)) << "y is linear in x: " << check.str();
}

void expect_refusal(const Arguments& arguments, const std::string& part, const GradcheckOptions& options = {}) {
  try {
    gradcheck(kinked(), arguments, {}, options);
    ADD_FAILURE() << "no error that says: " << part;
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_FALSE(error.hint().empty());
  }
}

TEST(Gradcheck, TakesSizesThatNoArrayHas) {
  ProgramBuilder p("powers");
  auto n = p.size("n"), steps = p.size("steps");
  auto u = p.inout<double>("u", {n});
  for ([[maybe_unused]] auto t : p.loop("t", steps))
    for (auto i : p.loop("i", n)) u(i) = u(i) * u(i);
  const Program program = p.build();
  std::vector<double> x = {0.5, 1.5};
  const Arguments arguments = {{"u", view(x.data(), {2})}};
  const Gradcheck check = gradcheck(program, arguments, {{"steps", 3}}, {.compile = interpreted});
  EXPECT_TRUE(check.ok()) << check.str();
  try {
    gradcheck(program, arguments, {}, {.compile = interpreted});
    ADD_FAILURE() << "steps is missing";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadSize);
    EXPECT_NE(std::string(error.what()).find("'steps'"), std::string::npos) << error.what();
    EXPECT_NE(error.hint().find("gradcheck(program, arguments, {{\"steps\", ..}})"), std::string::npos) << error.what();
  }
}

TEST(Gradcheck, RefusesWhatDoesNotFit) {
  std::vector<float> x = {1, 2, 3}, w = {1, 2};
  std::vector<double> d = {1, 2, 3};
  View device = view(x.data(), {3});
  device.device = Device::Cuda;
  const View good = view(x.data(), {3});
  expect_refusal({{"x", good}}, "is not given");
  expect_refusal({{"x", good}, {"w", view(d.data(), {3})}}, "elements of f64, not f32");
  expect_refusal({{"x", good}, {"w", view(w.data(), {2})}}, "");
  expect_refusal({{"x", good}, {"w", device}}, "memory of the host");
  expect_refusal({{"x", good}, {"w", good}}, "one by one", {.gradient = {.directions = "k"}});
}

}  // namespace
}  // namespace loopgrad::test
