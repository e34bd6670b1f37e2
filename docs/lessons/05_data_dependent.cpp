// Control that data decide: a loop whose length is an input, a branch, and an iteration until convergence.
#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <vector>

namespace lg = loopgrad;

// y[i] = a polynomial with count[i] terms where x[i] > 0, else 0.
lg::Program series() {
  lg::ProgramBuilder p("series");
  auto n = p.size("n");
  auto count = p.input<int>("count", {n});
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    p.when(x(i) > 0, [&] {
       auto power = p.scalar<double>("power", 1), sum = p.scalar<double>("sum", 0);
       for (auto k : p.loop("k", count(i))) {
         sum += power / (k + 1);
         power *= x(i);
       }
       y(i) = sum;
     }).otherwise([&] { y(i) = 0; });
  }
  return p.build();
}

// The root of r*r*r = x by Newton's method: at most 50 steps, fewer when it is good enough.
lg::Program cube_root() {
  lg::ProgramBuilder p("cube_root");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto root = p.output<double>("root", {n});
  auto steps = p.output<int>("steps", {n});
  for (auto i : p.loop("i", n)) {
    auto r = p.scalar<double>("r", x(i));
    steps(i) = 0;
    for (auto k : p.loop_while("k", 50, [&](auto) { return lg::abs(r * r * r - x(i)) > 1e-12; })) {
      r = r - (r * r * r - x(i)) / (3 * r * r);
      steps(i) = k + 1;
    }
    root(i) = r;
  }
  return p.build();
}

int main() {
  std::vector<int> count = {2, 3, 1};
  std::vector<double> x = {0.5, 0.5, -1}, y(3), d_y = {1, 1, 1}, d_x(3);
  const lg::Arguments arrays = {{"count", lg::view(count.data(), {3})},
                                {"x", lg::view(x.data(), {3})},
                                {"y", lg::view(y.data(), {3})},
                                {"d_y", lg::view(d_y.data(), {3})},
                                {"d_x", lg::view(d_x.data(), {3})}};
  auto polynomials = lg::compile_gradient(series());
  polynomials.forward(arrays);
  polynomials.backward(arrays);
  for (int i = 0; i < 3; ++i)
    std::printf("x = %4.1f, %d terms: y = %.4f, dy/dx = %.4f\n", x[i], count[i], y[i], d_x[i]);

  std::vector<double> z = {8, 27, 2}, root(3), d_root = {1, 1, 1}, d_z(3);
  std::vector<int> steps(3);
  const lg::Arguments more = {{"x", lg::view(z.data(), {3})},
                              {"root", lg::view(root.data(), {3})},
                              {"steps", lg::view(steps.data(), {3})},
                              {"d_root", lg::view(d_root.data(), {3})},
                              {"d_x", lg::view(d_z.data(), {3})}};
  auto roots = lg::compile_gradient(cube_root());
  roots.forward(more);
  roots.backward(more);
  for (int i = 0; i < 3; ++i)
    std::printf("the root of %2g is %.6f after %d steps, its derivative %.6f, by hand %.6f\n", z[i], root[i], steps[i],
                d_z[i], 1 / (3 * root[i] * root[i]));
  return 0;
}
