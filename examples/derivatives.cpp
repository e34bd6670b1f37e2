// More than a gradient: forward mode, a Jacobian in one run, products with the Hessian, and a check of all of it.
#include <loopgrad/gradcheck.h>
#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <vector>

namespace lg = loopgrad;

// y[i] = (sum_j a[i,j] x[j])^3, e = sum_i y[i]
lg::Program cubes() {
  lg::ProgramBuilder p("cubes");
  auto m = p.size("m"), n = p.size("n");
  auto a = p.input<double>("a", {m, n}), x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {m}), e = p.output<double>("e", {});
  e() = 0.0;
  for (auto i : p.loop("i", 0, m)) {
    auto s = p.scalar<double>("s", 0.0);
    for (auto j : p.loop("j", 0, n)) s += a(i, j) * x(j);
    y(i) = s * s * s;
    e() += y(i);
  }
  return p.build();
}

int main() {
  const lg::Program program = cubes();
  std::vector<double> a = {1, 2, 3, 4, 5, 6}, x = {1, -1, 2}, y(2), e(1);
  const lg::Arguments arguments = {{"a", lg::view(a.data(), {2, 3})},
                                   {"x", lg::view(x.data(), {3})},
                                   {"y", lg::view(y.data(), {2})},
                                   {"e", lg::view(e.data(), {})}};

  // Forward mode: t_x comes in, t_y = J t_x goes out beside y.
  std::vector<double> t_x = {0, 1, 0}, t_y(2);
  lg::Arguments forward = arguments;
  forward["t_x"] = lg::view(t_x.data(), {3});
  forward["t_y"] = lg::view(t_y.data(), {2});
  lg::compile(lg::tangent(program, {.wrt = {"x"}, .of = {"y"}})).run(forward);
  std::printf("column 1 of the Jacobian: %g %g\n", t_y[0], t_y[1]);

  // All columns in one run; JacobianMode::Reverse has j_y_x[3, 2] by rows instead.
  std::vector<double> j(6);
  lg::Arguments whole = arguments;
  whole["j_y_x"] = lg::view(j.data(), {2, 3});
  lg::compile(lg::jacobian(program, "y", "x")).run(whole);
  std::printf("Jacobian: %g %g %g, %g %g %g\n", j[0], j[1], j[2], j[3], j[4], j[5]);

  // The Hessian of e times t_x: forward mode of the gradient, which is a program, too.
  const lg::Program gradient = lg::joined(lg::differentiate(program, {.wrt = {"x"}, .of = {"e"}}));
  std::vector<double> g_e = {1}, g_x(3), t_g_x(3);
  lg::Arguments second = arguments;
  second["g_e"] = lg::view(g_e.data(), {});
  second["g_x"] = lg::view(g_x.data(), {3});
  second["t_x"] = lg::view(t_x.data(), {3});
  second["t_g_x"] = lg::view(t_g_x.data(), {3});
  lg::compile(lg::tangent(gradient, {.wrt = {"x"}, .of = {"g_x"}})).run(second);
  std::printf("gradient: %g %g %g, Hessian times t_x: %g %g %g\n", g_x[0], g_x[1], g_x[2], t_g_x[0], t_g_x[1],
              t_g_x[2]);

  // Differences, dot product and Taylor at these arguments.
  const lg::Gradcheck check = lg::gradcheck(program, arguments);
  std::fputs(check.str().c_str(), stdout);

  // s = (5, 11): J[i, j] = 3 s_i^2 a[i, j], H[j, k] = sum_i 6 s_i a[i, j] a[i, k].
  const bool right = t_y[0] == j[1] && t_y[1] == j[4] && j[0] == 75 && j[5] == 2178 && g_x[0] == j[0] + j[3] &&
                     t_g_x[0] == 6 * 5 * 1 * 2 + 6 * 11 * 4 * 5 && check.ok();
  return right ? 0 : 1;
}
