// Programs with small vectors, matrices and complex numbers, loops in other directions, tables and buffers that take
// turns: what they compute, and their gradients in all variants.
#include "tests/gradient/jacobian.h"

#include "backends/interpreter/interpreter.h"

#include <loopgrad/small.h>

#include <algorithm>
#include <cmath>
#include <complex>

namespace loopgrad::test {
namespace {

/// The result of a program with arrays of f64 that are given, by name; one output.
std::vector<double> run(const Program& program, std::map<std::string, std::vector<double>> arrays,
                        const std::map<std::string, std::vector<std::int64_t>>& shapes, const std::string& output,
                        const Sizes& sizes = {}) {
  Arguments arguments;
  for (auto& [name, values] : arrays) arguments[name] = view(values.data(), shapes.at(name));
  backend::interpret(program.ir(), backend::bind(program.ir(), arguments, sizes), {});
  return arrays.at(output);
}

/// Springs in space, by vectors: forces on both ends along the edge.
Program springs() {
  ProgramBuilder p("springs");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<double>("x", {n, 3}), f = p.output<double>("f", {n, 3});
  const Value stiffness = 2.5;
  for (auto [i, c] : p.loop({"i", n}, {"c", 3})) f(i, c) = 0;
  for (auto i : p.loop("i", n - 1)) {
    const Vec<3> edge = load<3>(x.row(i + 1)) - load<3>(x.row(i));
    const Value size = p.let("size", length(edge));
    const Vec<3> force = stiffness * (size - 0.5) * (edge / size) + 0.1 * cross(edge, Vec<3>(0, 0, 1));
    add_to(f.row(i), force);
    add_to(f.row(i + 1), -force);
  }
  return p.build();
}

TEST(SmallTypes, VectorsComputeWhatIsWrittenOut) {
  const std::vector<double> x = {0, 0, 0, 1, 2, 2, 1, 2, 5};
  const std::vector<double> f =
      run(springs(), {{"x", x}, {"f", std::vector<double>(9)}}, {{"x", {3, 3}}, {"f", {3, 3}}}, "f");
  // The first edge is (1, 2, 2) of length 3: 2.5*2.5/3 of it, and 0.1*(2, -1, 0).
  EXPECT_NEAR(f[0], 2.5 * 2.5 / 3 + 0.2, 1e-14);
  EXPECT_NEAR(f[1], 2.5 * 2.5 / 3 * 2 - 0.1, 1e-14);
  EXPECT_NEAR(f[2], 2.5 * 2.5 / 3 * 2, 1e-14);
  EXPECT_NEAR(f[3] + f[0], 0, 1e-14) << "the second edge has the direction of z";
  EXPECT_NEAR(f[8], -2.5 * 2.5, 1e-14);
}

/// A point that turns in place, and a number that is squared, by steps whose values have names.
Program turning() {
  ProgramBuilder p("turning");
  const Value n = p.size("n"), steps = p.size("steps");
  const ArrayHandle x = p.inout<double>("x", {n, 3}), y = p.output<double>("y", {n});
  for (auto i : p.loop("i", n)) {
    for (auto t : p.loop("t", steps)) {
      const Vec<3> at = load<3>(x.row(i));
      const Mat<3> turn = p.let("turn", Mat<3>::identity() + 0.1 * outer(at, Vec<3>(1, 0.5 * at[0], 0)));
      store(x.row(i), p.let("at", turn * at + 0.01 * cast<double>(t) * cross(at, Vec<3>(0, 0, 1))));
    }
    const Complex z = p.let("z", Complex(x(i, 0), x(i, 1)));
    y(i) = norm(p.let("square", z * z));
  }
  return p.build();
}

TEST(SmallTypes, ValuesThatHaveNamesComputeWhatOneWouldExpect) {
  const std::vector<double> y =
      run(turning(), {{"x", {0.3, 0.2, 0.1}}, {"y", {0}}}, {{"x", {1, 3}}, {"y", {1}}}, "y", {{"steps", 2}});
  double a[3] = {0.3, 0.2, 0.1};
  for (int t = 0; t < 2; ++t) {
    const double along = 0.1 * (a[0] + 0.5 * a[0] * a[1]);
    const double b[3] = {a[0] + along * a[0] + 0.01 * t * a[1], a[1] + along * a[1] - 0.01 * t * a[0],
                         a[2] + along * a[2]};
    std::copy(b, b + 3, a);
  }
  EXPECT_NEAR(y[0], (a[0] * a[0] + a[1] * a[1]) * (a[0] * a[0] + a[1] * a[1]), 1e-14);
}

TEST(SmallTypes, GradientsOfVectors) {
  EXPECT_TRUE(gradient_is_right(turning(), {.sizes = {{"n", 2}, {"steps", 3}}, .values = {}, .options = {}}));
  EXPECT_TRUE(gradient_is_right(springs(), {.sizes = {{"n", 4}}, .values = {}, .options = {}}));
}

/// inverse(A)*A, its determinant and trace; A is made diagonally dominant.
template <std::size_t N>
Program inverses() {
  ProgramBuilder p("inverses");
  const Value n = p.size("n"), k = static_cast<std::int64_t>(N);
  const ArrayHandle a = p.input<double>("a", {n, k, k}), y = p.output<double>("y", {n, k, k}),
                    s = p.output<double>("s", {n});
  for (auto i : p.loop("i", n)) {
    const Mat<N> m = load_matrix<N>(a.row(i)) + 4.0 * Mat<N>::identity();
    store(y.row(i), inverse(m));
    s(i) =
        determinant(m) + trace(transpose(m) * m) + dot(m * m.rows[0], m.rows[N - 1]) + length(m) * dot(m, transpose(m));
  }
  return p.build();
}

TEST(SmallTypes, InversesAreInverse) {
  const std::vector<double> a = {1, 0.5, -1, 0.25, 2, 0.125, 0.5, -0.5, 1};
  const std::vector<double> y =
      run(inverses<3>(), {{"a", a}, {"y", std::vector<double>(9)}, {"s", std::vector<double>(1)}},
          {{"a", {1, 3, 3}}, {"y", {1, 3, 3}}, {"s", {1}}}, "y");
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (std::size_t k = 0; k < 3; ++k) sum += y[3 * r + k] * (a[3 * k + c] + (k == c ? 4 : 0));
      EXPECT_NEAR(sum, r == c ? 1 : 0, 1e-14) << r << ", " << c;
    }
}

TEST(SmallTypes, GradientsOfMatrices) {
  EXPECT_TRUE(gradient_is_right(inverses<1>(), {.sizes = {{"n", 2}}, .values = {}, .options = {}}));
  EXPECT_TRUE(gradient_is_right(inverses<2>(), {.sizes = {{"n", 2}}, .values = {}, .options = {}}));
  EXPECT_TRUE(gradient_is_right(inverses<3>(), {.sizes = {{"n", 2}}, .values = {}, .options = {}}));
  EXPECT_TRUE(gradient_is_right(inverses<4>(), {.sizes = {{"n", 1}}, .values = {}, .options = {}}));
}

/// A damped wave: y = sum of exp(z)*a / (1 + conj(a)), its magnitude and angle.
Program waves() {
  ProgramBuilder p("waves");
  const Value n = p.size("n");
  const ArrayHandle a = p.input<double>("a", {n, 2}), y = p.output<double>("y", {n, 4});
  for (auto i : p.loop("i", n)) {
    const Complex z(a(i, 0), a(i, 1));
    const Complex w = (exp(0.5 * z) * polar(2, 0.25) - z) / (conj(z) + 3.0);
    y(i, 0) = w.re;
    y(i, 1) = w.im;
    y(i, 2) = abs(w) + norm(-z);
    y(i, 3) = arg(w + Complex(2, 0));
  }
  return p.build();
}

TEST(SmallTypes, ComplexNumbersAreThoseOfTheStandardLibrary) {
  const std::complex<double> z(0.75, -1.25), w = (std::exp(0.5 * z) * std::polar(2.0, 0.25) - z) / (std::conj(z) + 3.0);
  const std::vector<double> y =
      run(waves(), {{"a", {z.real(), z.imag()}}, {"y", std::vector<double>(4)}}, {{"a", {1, 2}}, {"y", {1, 4}}}, "y");
  EXPECT_NEAR(y[0], w.real(), 1e-14);
  EXPECT_NEAR(y[1], w.imag(), 1e-14);
  EXPECT_NEAR(y[2], std::abs(w) + std::norm(z), 1e-14);
  EXPECT_NEAR(y[3], std::arg(w + 2.0), 1e-14);
}

TEST(SmallTypes, GradientsOfComplexNumbers) {
  EXPECT_TRUE(gradient_is_right(waves(), {.sizes = {{"n", 3}}, .values = {}, .options = {}}));
}

/// Values on either side of complex numbers and matrices, and functions by their full names.
TEST(SmallTypes, ValuesStandOnEitherSide) {
  ProgramBuilder p("sides");
  const ArrayHandle a = p.input<double>("a", {2}), y = p.output<double>("y", {4}), m = p.inout<double>("m", {2, 2});
  const Complex z(a(0), a(1)), w = 2 / (1 + z) - (1 - loopgrad::exp(loopgrad::conj(z)));
  store(y, Vec<4>(w.re, w.im, loopgrad::norm(z), loopgrad::abs(z) + loopgrad::arg(z)));
  const Mat<2> one = Mat<2>::identity();
  add_to(m, -(3 * one + one * a(0)) / 2);
  const Program program = p.build();

  const std::complex<double> c(0.75, -1.25), v = 2.0 / (1.0 + c) - (1.0 - std::exp(std::conj(c)));
  const std::map<std::string, std::vector<std::int64_t>> shapes = {{"a", {2}}, {"y", {4}}, {"m", {2, 2}}};
  const std::map<std::string, std::vector<double>> arrays = {
      {"a", {0.75, -1.25}}, {"y", std::vector<double>(4)}, {"m", {1, 1, 1, 1}}};
  const std::vector<double> of_numbers = run(program, arrays, shapes, "y");
  EXPECT_NEAR(of_numbers[0], v.real(), 1e-14);
  EXPECT_NEAR(of_numbers[1], v.imag(), 1e-14);
  EXPECT_NEAR(of_numbers[2], std::norm(c), 1e-14);
  EXPECT_NEAR(of_numbers[3], std::abs(c) + std::arg(c), 1e-14);
  EXPECT_EQ(run(program, arrays, shapes, "m"), (std::vector<double>{-0.875, 1, 1, -0.875}));
}

/// Back substitution, from the last row to the first.
Program back_substitution() {
  ProgramBuilder p("back_substitution");
  const Value n = p.size("n");
  const ArrayHandle u = p.input<double>("u", {n, n}), b = p.input<double>("b", {n}), x = p.output<double>("x", {n});
  for (auto i : p.loop("i", n, {.descending = true})) {
    auto s = p.scalar<double>("s", b(i));
    for (auto j : p.loop("j", i + 1, n)) s -= u(i, j) * x(j);
    x(i) = s / (4 + u(i, i));
  }
  return p.build();
}

TEST(OtherLoops, DescendingOnesRunFromTheLastToTheFirst) {
  const std::vector<double> x = run(back_substitution(), {{"u", {0, 3, 0, 1}}, {"b", {7, 10}}, {"x", {0, 0}}},
                                    {{"u", {2, 2}}, {"b", {2}}, {"x", {2}}}, "x");
  EXPECT_EQ(x[1], 2);
  EXPECT_EQ(x[0], 0.25);
  EXPECT_TRUE(gradient_is_right(back_substitution(), {.sizes = {{"n", 4}}, .values = {}, .options = {}}));
}

/// One sweep of red and one of black points in place, downwards in steps of three, and a table of weights.
Program strided() {
  ProgramBuilder p("strided");
  const Value n = p.size("n");
  const ArrayHandle x = p.inout<double>("x", {n});
  const ArrayHandle w = p.table<double>("w", {0.5, 0.25, -0.125});
  for (const int first : {1, 2})
    for (auto i : p.loop("i", first, n - 1, {.step = 2})) x(i) = w(0) * x(i) + w(1) * x(i - 1) * x(i + 1);
  for (auto i : p.loop("i", 1, n, {.step = 3, .descending = true})) x(i) += w(2) * x(i - 1) * x(i);
  return p.build();
}

TEST(OtherLoops, StridedOnesSkipIterations) {
  std::vector<double> x = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<double> y = run(strided(), {{"x", x}}, {{"x", {7}}}, "x");
  for (const std::size_t first : {1, 2})
    for (std::size_t i = first; i < 6; i += 2) x[i] = 0.5 * x[i] + 0.25 * x[i - 1] * x[i + 1];
  for (const std::size_t i : {4, 1}) x[i] += -0.125 * x[i - 1] * x[i];
  EXPECT_EQ(y, x);
  for (const std::int64_t n : {0, 1, 2, 7, 8})
    EXPECT_TRUE(gradient_is_right(strided(), {.sizes = {{"n", n}}, .values = {}, .options = {}})) << n;
}

/// Steps of diffusion in two buffers that take turns.
Program turns() {
  ProgramBuilder p("turns");
  const Value n = p.size("n"), t = p.size("t");
  const ArrayHandle x = p.input<double>("x", {n}), y = p.output<double>("y", {n});
  const ArrayView u = p.ring<double>("u", 2, {n});
  for (auto i : p.loop("i", n)) {
    u(0, i) = x(i);
    u(1, i) = x(i);
  }
  for (auto s : p.loop("s", t))
    for (auto i : p.loop("i", 1, n - 1)) u(s + 1, i) = u(s, i) + 0.25 * sin(u(s, i - 1) - 2 * u(s, i) + u(s, i + 1));
  for (auto i : p.loop("i", n)) y(i) = u(t, i);
  return p.build();
}

TEST(OtherLoops, BuffersThatTakeTurns) {
  for (const std::int64_t t : {0, 1, 4, 5})
    EXPECT_TRUE(gradient_is_right(turns(), {.sizes = {{"n", 6}, {"t", t}}, .values = {}, .options = {}})) << t;
}

}  // namespace
}  // namespace loopgrad::test
