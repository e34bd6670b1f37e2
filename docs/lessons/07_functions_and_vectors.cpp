// Functions, small vectors, structs and complex numbers: C++ that runs while the program is recorded.
#include <loopgrad/loopgrad.h>

#include <cstdio>
#include <vector>

namespace lg = loopgrad;

// A struct of values, and functions of them. Nothing of this is left in the program but its arithmetic.
struct Spring {
  lg::Value stiffness, rest;
  lg::Vec<2> force(const lg::Vec<2>& from, const lg::Vec<2>& to) const {
    const lg::Vec<2> d = to - from;
    const lg::Value size = lg::length(d);
    return stiffness * (size - rest) / size * d;
  }
};

// A function with a loop inside: it records that loop where it is called, as often as it is called.
lg::Value energy(lg::ProgramBuilder& p, const lg::ArrayView& v, const lg::Value& n) {
  auto sum = p.scalar<double>("sum", 0);
  for (auto i : p.loop("i", n)) sum += 0.5 * lg::dot(lg::load<2>(v.row(i)), lg::load<2>(v.row(i)));
  return sum;
}

// A chain of masses: forces on them after one step, and the energy of their motion.
lg::Program chain() {
  lg::ProgramBuilder p("chain");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n, 2});
  auto stiffness = p.input<double>("stiffness", {});
  auto e = p.output<double>("e", {});
  auto v = p.local<double>("v", {n, 2});
  for (auto i : p.loop("i", n)) lg::store(v.row(i), lg::Vec<2>::all(0.0));
  const Spring spring{stiffness(), 1.0};
  for (auto i : p.loop("i", n - 1)) {
    const lg::Vec<2> f = spring.force(lg::load<2>(x.row(i)), lg::load<2>(x.row(i + 1)));
    lg::add_to(v.row(i), 0.1 * f);
    lg::add_to(v.row(i + 1), -0.1 * f);
  }
  e() = energy(p, v, n);
  return p.build();
}

// How far z -> z*z + c gets in three steps: |z|^2, and its slope along both axes.
lg::Program escape() {
  lg::ProgramBuilder p("escape");
  auto re = p.input<double>("re", {}), im = p.input<double>("im", {});
  auto size = p.output<double>("size", {});
  const lg::Complex c(re(), im());
  lg::Complex z(0.0, 0.0);
  for (int step = 0; step < 3; ++step) z = z * z + c;  // a loop of C++: three copies of its body
  size() = lg::norm(z);
  return p.build();
}

int main() {
  std::vector<double> x = {0, 0, 2, 0, 2, 3}, d_x(6);
  double stiffness = 10, e = 0, d_e = 1, d_stiffness = 0;
  const lg::Arguments arrays = {{"x", lg::view(x.data(), {3, 2})},           {"d_x", lg::view(d_x.data(), {3, 2})},
                                {"stiffness", lg::view(&stiffness, {})},     {"e", lg::view(&e, {})},
                                {"d_stiffness", lg::view(&d_stiffness, {})}, {"d_e", lg::view(&d_e, {})}};
  auto gradient = lg::compile_gradient(chain());
  gradient.forward(arrays);
  gradient.backward(arrays);
  std::printf("energy %.3f, by stiffness %.3f\n", e, d_stiffness);
  for (int i = 0; i < 3; ++i) std::printf("by position %d: (%.3f, %.3f)\n", i, d_x[2 * i], d_x[2 * i + 1]);

  double re = -0.5, im = 0.5, size = 0, d_size = 1, d_re = 0, d_im = 0;
  const lg::Arguments more = {{"re", lg::view(&re, {})},     {"im", lg::view(&im, {})},
                              {"size", lg::view(&size, {})}, {"d_size", lg::view(&d_size, {})},
                              {"d_re", lg::view(&d_re, {})}, {"d_im", lg::view(&d_im, {})}};
  auto slope = lg::compile_gradient(escape());
  slope.forward(more);
  slope.backward(more);
  std::printf("|z|^2 = %.4f, slope (%.4f, %.4f)\n", size, d_re, d_im);
  return 0;
}
