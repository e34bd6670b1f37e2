// Beyond the gradient: directions, products with the Hessian, constants within a derivative, and a check of all of it.
#include <loopgrad/gradcheck.h>
#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <vector>

namespace lg = loopgrad;

// Rosenbrock's valley: e = sum of 100 (x[i + 1] - x[i]^2)^2 + (1 - x[i])^2
lg::Program valley() {
  lg::ProgramBuilder p("valley");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto e = p.output<double>("e", {});
  e() = 0;
  for (auto i : p.loop("i", n - 1)) {
    auto off = p.let("off", x(i + 1) - x(i) * x(i));
    e() += 100 * off * off + (1 - x(i)) * (1 - x(i));
  }
  return p.build();
}

// x divided by its largest element, which is not to be followed: the scale is a constant to all derivatives.
lg::Program scaled() {
  lg::ProgramBuilder p("scaled");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto largest = p.scalar<double>("largest", x(0));
  for (auto i : p.loop("i", 1, n)) largest.max_with(x(i));
  for (auto i : p.loop("i", n)) y(i) = x(i) / lg::stop_gradient(largest);
  return p.build();
}

// e = the sum of squares of x, rounded to eighths. A rounding has the derivative zero, from which nothing can be
// learned. So this one says what its derivative is to be: that of x.
lg::Program rounded() {
  lg::ProgramBuilder p("rounded");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto e = p.output<double>("e", {});
  auto q = p.local<double>("q", {n});
  lg::CustomRule straight_through;
  straight_through.forward = [&] {
    for (auto i : p.loop("i", n)) q(i) = lg::floor(x(i) * 8 + 0.5) / 8;
  };
  straight_through.adjoint = [&](const lg::Derivatives& d) {  // d(q) comes in; what belongs to d(x) is added
    for (auto i : p.loop("i", n)) d(x)(i) += d(q)(i);
  };
  straight_through.tangent = [&](const lg::Derivatives& d) {  // the same for forward mode
    for (auto i : p.loop("i", n)) d(q)(i) = d(x)(i);
  };
  p.custom_gradient({q}, {x}, straight_through);
  e() = 0;
  for (auto i : p.loop("i", n)) e() += q(i) * q(i);
  return p.build();
}

int main() {
  const lg::Program program = valley();
  std::vector<double> x = {0.5, 0.5, 1}, t_x = {1, 0, 0};
  double e = 0, t_e = 0;
  lg::Arguments arrays = {{"x", lg::view(x.data(), {3})},
                          {"t_x", lg::view(t_x.data(), {3})},
                          {"e", lg::view(&e, {})},
                          {"t_e", lg::view(&t_e, {})}};

  // Forward mode: how e changes along t_x. One run, no tape.
  lg::compile(lg::tangent(program)).run(arrays);
  std::printf("e = %g, along (1, 0, 0): %g\n", e, t_e);

  // The gradient as one program, which is differentiated again: forward over reverse gives the Hessian times t_x.
  const lg::Program gradient = lg::joined(lg::differentiate(program));
  std::vector<double> g_x(3), t_g_x(3);
  double g_e = 1;
  arrays.erase("t_e");
  arrays["g_e"] = lg::view(&g_e, {});
  arrays["g_x"] = lg::view(g_x.data(), {3});
  arrays["t_g_x"] = lg::view(t_g_x.data(), {3});
  lg::compile(lg::tangent(gradient, {.wrt = {"x"}, .of = {"g_x"}})).run(arrays);
  std::printf("gradient (%g, %g, %g), Hessian times (1, 0, 0): (%g, %g, %g)\n", g_x[0], g_x[1], g_x[2], t_g_x[0],
              t_g_x[1], t_g_x[2]);

  // A constant on purpose.
  std::vector<double> y(3), d_y = {1, 1, 1}, d_x(3);
  const lg::Arguments more = {{"x", lg::view(x.data(), {3})},
                              {"y", lg::view(y.data(), {3})},
                              {"d_y", lg::view(d_y.data(), {3})},
                              {"d_x", lg::view(d_x.data(), {3})}};
  auto run = lg::compile_gradient(scaled());
  run.forward(more);
  run.backward(more);
  std::printf("d_x of the scaled x: (%g, %g, %g)\n", d_x[0], d_x[1], d_x[2]);

  // A derivative of one's own.
  x = {0.3, 0.5, 0.9};
  const lg::Arguments last = {{"x", lg::view(x.data(), {3})},
                              {"e", lg::view(&e, {})},
                              {"d_e", lg::view(&g_e, {})},
                              {"d_x", lg::view(d_x.data(), {3})}};
  auto through = lg::compile_gradient(rounded());
  through.forward(last);
  through.backward(last);
  std::printf("e of the rounded x = %g, d_x: (%g, %g, %g)\n\n", e, d_x[0], d_x[1], d_x[2]);

  // Differences, forward mode and gradient against each other, at these arguments.
  const lg::Gradcheck check = lg::gradcheck(program, {{"x", lg::view(x.data(), {3})}});
  std::printf("%s: %s along %d directions\n", check.program.c_str(), check.ok() ? "right" : "wrong", check.directions);
  return 0;
}
