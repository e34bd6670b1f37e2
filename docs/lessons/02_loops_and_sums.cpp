// The logarithm of a sum of exponentials of each row, computed without overflow. Its gradient is the softmax.
#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <vector>

namespace lg = loopgrad;

lg::Program log_sum_exp() {
  lg::ProgramBuilder p("log_sum_exp");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", n)) {
    auto largest = p.scalar<float>("largest", x(i, 0));  // one for each i
    for (auto j : p.loop("j", 1, m)) largest.max_with(x(i, j));
    auto sum = p.scalar<float>("sum", 0);
    for (auto j : p.loop("j", m)) sum += lg::exp(x(i, j) - largest);
    y(i) = largest + lg::log(sum);
  }
  return p.build();
}

// A mean over everything: one number that all iterations sum into.
lg::Program mean_square() {
  lg::ProgramBuilder p("mean_square");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto scale = p.input<float>("scale", {m});
  auto e = p.output<float>("e", {});
  e() = 0.0f;
  for (auto [i, j] : p.loop({"i", n}, {"j", m})) e() += scale(j) * x(i, j) * x(i, j) / lg::cast<float>(n * m);
  return p.build();
}

int main() {
  auto gradient = lg::compile_gradient(log_sum_exp());
  std::vector<float> x = {1, 1, 1, 1, 0, 100, 0, 0}, y(2), d_y = {1, 1}, d_x(8);
  lg::Arguments arrays = {{"x", lg::view(x.data(), {2, 4})},
                          {"y", lg::view(y.data(), {2})},
                          {"d_y", lg::view(d_y.data(), {2})},
                          {"d_x", lg::view(d_x.data(), {2, 4})}};
  gradient.forward(arrays);
  gradient.backward(arrays);
  std::printf("y = %.4f %.4f\n", y[0], y[1]);
  for (int i = 0; i < 2; ++i) {
    std::printf("d_x, row %d:", i);
    for (int j = 0; j < 4; ++j) std::printf(" %.4f", d_x[4 * i + j]);
    std::printf("\n");
  }

  // d_scale[j] is a sum over i, which one thread may own; so it needs no atomics.
  const lg::Gradient g = lg::differentiate(mean_square(), {.wrt = {"scale"}});
  std::printf("\n%s", g.backward.str().c_str());
  return 0;
}
