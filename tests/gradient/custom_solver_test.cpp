// Gradients that the user writes for regions, compiled.
#include <loopgrad/loopgrad.h>

#include <gtest/gtest.h>

#include <cmath>

namespace loopgrad::test {
namespace {

/// Square roots by Newton's method in a loop that overwrites what they are taken of: by the equation that they solve,
/// or through all steps.
Program roots(bool by_rule) {
  ProgramBuilder p("roots");
  const Value n = p.size("n"), steps = p.size("steps");
  const ArrayHandle a = p.inout<double>("a", {n}), y = p.local<double>("y", {n});
  const auto solve = [&] {
    for (auto i : p.loop("i", n)) {
      y(i) = 1.0;
      for ([[maybe_unused]] auto k : p.loop("k", 9)) y(i) = 0.5 * (y(i) + a(i) / y(i));
    }
  };
  const auto adjoint = [&](const Derivatives& d) {
    for (auto i : p.loop("i", n)) d(a)(i) += d(y)(i) / (2.0 * y(i));
  };
  for ([[maybe_unused]] auto t : p.loop("t", steps)) {
    if (by_rule) p.custom_gradient({y}, {a}, {.forward = solve, .adjoint = adjoint});
    else solve();
    for (auto i : p.loop("i", n)) a(i) = 1.0 + sin(a(i)) * y(i) * y((i + 1) % n);
  }
  return p.build();
}

TEST(CustomGradient, OfASolverIsThatOfItsUnrolledSteps) {
  const auto gradient_of = [](const Program& program, Variant variant, Target target) {
    const GradientExecutable g = compile_gradient(program, {.wrt = {"a"}, .variant = variant}, {.target = target});
    std::vector<double> a = {0.3, 1.7, 2.9, 0.8, 1.1, 3.3, 0.6}, d_a = {1, -2, 0.5, 3, -1, 0.25, 2};
    const Sizes sizes = {{"steps", 5}};
    g.forward({{"a", view(a.data(), {7})}}, sizes);
    g.backward({{"a", view(a.data(), {7})}, {"d_a", view(d_a.data(), {7})}}, sizes);
    return d_a;
  };
  const std::vector<double> unrolled = gradient_of(roots(false), Variant::NaiveTape, Target::Interpreter);
  for (const Target target : {Target::Interpreter, Target::OpenMP})
    for (const Variant variant : {Variant::NaiveTape, Variant::Atomic, Variant::Restructured}) {
      const std::vector<double> d_a = gradient_of(roots(true), variant, target);
      for (std::size_t i = 0; i < d_a.size(); ++i)
        EXPECT_NEAR(d_a[i], unrolled[i], 1e-10 * (1 + std::abs(unrolled[i]))) << name_of(variant);
    }
}

}  // namespace
}  // namespace loopgrad::test
