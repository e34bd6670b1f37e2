// Derivatives of powers where a power of the base has none of its own: at zero, and for bases below.
#include "tests/unit/openmp/kernels.h"

#include <loopgrad/loopgrad.h>

#include <algorithm>
#include <cmath>

namespace loopgrad::test {
namespace {

enum class Exponent { Literal, Integers, Floats };

/// y[i] = x[i]^e[i], or by a literal.
template <class T>
Program powers(Exponent kind, double literal) {
  ProgramBuilder p("powers");
  auto n = p.size("n");
  auto x = p.input<T>("x", {n});
  auto y = p.output<T>("y", {n});
  if (kind == Exponent::Literal) {
    for (auto i : p.loop("i", 0, n)) y(i) = pow(x(i), literal);
  } else {
    auto e = kind == Exponent::Integers ? p.input<std::int32_t>("e", {n}) : p.input<T>("e", {n});
    for (auto i : p.loop("i", 0, n)) y(i) = pow(x(i), e(i));
  }
  return p.build();
}

struct Derivatives {
  double value, first, second;
};

Derivatives of_power(double x, double k) {
  const double first = k == 0 ? 0 : k * std::pow(x, k - 1);
  return {std::pow(x, k), first, k == 0 || k == 1 ? 0 : k * (k - 1) * std::pow(x, k - 2)};
}

template <class T>
void expect_powers(Exponent kind, double k, Target target) {
  const Program program = powers<T>(kind, k);
  const std::vector<T> x = {0, T(-0.0), T(-1.5), -2, 1, 3, T(1e-40)};
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<T> exponents(x.size(), T(k)), one(x.size(), T(1)), y(x.size()), first(x.size()), forward(x.size()),
      over(x.size()), under(x.size());
  std::vector<std::int32_t> integers(x.size(), static_cast<std::int32_t>(k));
  auto of = [&](std::vector<T>& v) { return view(v.data(), {n}); };
  Arguments inputs = {{"x", view(x.data(), {n})}};
  if (kind == Exponent::Integers) inputs["e"] = view(integers.data(), {n});
  if (kind == Exponent::Floats) inputs["e"] = of(exponents);
  auto with = [&](Arguments more) {
    more.insert(inputs.begin(), inputs.end());
    return more;
  };
  CompileOptions options;
  options.target = target;
  const GradientOptions by_x = {.wrt = {"x"}, .of = {"y"}};

  const GradientExecutable gradient = compile_gradient(program, by_x, options);
  gradient.forward(with({{"y", of(y)}}));
  gradient.backward(with({{"y", of(y)}, {"d_y", of(one)}, {"d_x", of(first)}}));
  compile(tangent(program, by_x), options).run(with({{"t_x", of(one)}, {"y", of(y)}, {"t_y", of(forward)}}));
  // The second derivative: forward over reverse (unless that does not even read the base), and reverse over forward.
  const Program backward = differentiate(program, by_x).backward;
  const auto& reads = backward.ir().arrays;
  const bool depends = std::any_of(reads.begin(), reads.end(), [](const auto& array) { return array->name == "x"; });
  if (depends) {
    const Program slopes = tangent(backward, {.wrt = {"x"}, .of = {"d_x"}});
    std::vector<T> scratch(x.size());
    Arguments given =
        with({{"t_x", of(one)}, {"d_y", of(one)}, {"y", of(y)}, {"d_x", of(scratch)}, {"t_d_x", of(over)}});
    Arguments taken;
    for (const auto& array : slopes.ir().arrays) taken[array->name] = given.at(array->name);
    compile(slopes, options).run(taken, {{"n", n}});
  }
  const GradientExecutable second = compile_gradient(tangent(program, by_x), {.wrt = {"x"}, .of = {"t_y"}}, options);
  std::vector<T> t_y(x.size());
  second.forward(with({{"t_x", of(one)}, {"y", of(y)}, {"t_y", of(t_y)}}));
  second.backward(with({{"t_x", of(one)}, {"d_t_y", of(one)}, {"d_x", of(under)}}), {{"n", n}});

  for (std::size_t i = 0; i < x.size(); ++i) {
    const Derivatives want = of_power(static_cast<double>(x[i]), k);
    const std::string where =
        std::to_string(static_cast<double>(x[i])) + "^" + std::to_string(k) + " on " + name_of(target);
    auto near = [&](T got, double expected, const char* what) {
      const T exact = static_cast<T>(expected);
      if (std::isinf(exact) || std::isnan(exact)) return;  // no derivative: of a negative power at zero
      EXPECT_NEAR(got, exact, 4e-6 * std::abs(exact)) << what << " of " << where;
    };
    near(y[i], want.value, "value");
    near(first[i], want.first, "gradient");
    near(forward[i], want.first, "tangent");
    near(over[i], want.second, "tangent of the gradient");
    near(under[i], want.second, "gradient of the tangent");
  }
}

TEST(Powers, HaveDerivativesAtZeroAndForNegativeBases) {
  for (const Target target : {Target::Interpreter, Target::OpenMP})
    for (const double k : {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, -1.0, -2.0})
      for (const Exponent kind : {Exponent::Literal, Exponent::Integers, Exponent::Floats}) {
        // Every kernel costs a compilation: one type for those of the literals.
        if (kind != Exponent::Literal || target == Target::Interpreter) expect_powers<float>(kind, k, target);
        if (kind != Exponent::Literal || target == Target::Interpreter || k == 0 || k == 3)
          expect_powers<double>(kind, k, target);
      }
  expect_powers<double>(Exponent::Literal, 0.5, Target::Interpreter);
}

TEST(Powers, APolynomialHasItsGradientAtZero) {
  ProgramBuilder p("polynomial");
  auto n = p.size("n"), terms = p.size("terms");
  auto x = p.input<float>("x", {n}), c = p.input<float>("c", {terms});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    for (auto k : p.loop("k", 0, terms)) y(i) += c(k) * pow(x(i), k);
  }
  const Program program = p.build();
  for (const Target target : {Target::Interpreter, Target::OpenMP}) {
    std::vector<float> X = {0, 1, -2}, C = {1, 2, 3}, Y(3), d_y = {1, 1, 1}, d_x(3), d_c(3);
    CompileOptions options;
    options.target = target;
    const GradientExecutable gradient = compile_gradient(program, {}, options);
    Arguments arrays = {{"x", view(X.data(), {3})}, {"c", view(C.data(), {3})}, {"y", view(Y.data(), {3})}};
    gradient.forward(arrays);
    arrays.insert({{"d_y", view(d_y.data(), {3})}, {"d_x", view(d_x.data(), {3})}, {"d_c", view(d_c.data(), {3})}});
    gradient.backward(arrays);
    EXPECT_EQ(Y, (std::vector<float>{1, 6, 9})) << name_of(target);
    EXPECT_EQ(d_x, (std::vector<float>{2, 8, -10})) << name_of(target);
    EXPECT_EQ(d_c, (std::vector<float>{3, -1, 5})) << name_of(target);
  }
}

/// What the exponent gets: a^b log a for bases above zero, 0 for others; and 1/a for what both get together where the
/// exponent is zero.
TEST(Powers, TheExponentHasItsOwnDerivative) {
  const Program program = powers<double>(Exponent::Floats, 0);
  std::vector<double> x = {2, 2, 0.5, 0, 0, -2}, e = {3, 0, 0, 0, 2, 2}, y(6), one(6, 1.0), d_e(6), d_x(6), both(6);
  auto of = [](std::vector<double>& v) { return view(v.data(), {6}); };
  CompileOptions options;
  options.target = Target::Interpreter;
  const GradientExecutable gradient = compile_gradient(program, {}, options);
  gradient.forward({{"x", of(x)}, {"e", of(e)}, {"y", of(y)}});
  gradient.backward({{"x", of(x)}, {"e", of(e)}, {"y", of(y)}, {"d_y", of(one)}, {"d_x", of(d_x)}, {"d_e", of(d_e)}});
  const std::vector<double> want = {8 * std::log(2.0), std::log(2.0), std::log(0.5), 0, 0, 0};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_DOUBLE_EQ(d_e[i], want[i]) << x[i] << "^" << e[i];
  const GradientExecutable second =
      compile_gradient(tangent(program, {.wrt = {"x"}, .of = {"y"}}), {.wrt = {"e"}, .of = {"t_y"}}, options);
  std::vector<double> t_y(6);
  second.forward({{"x", of(x)}, {"e", of(e)}, {"t_x", of(one)}, {"y", of(y)}, {"t_y", of(t_y)}});
  second.backward({{"x", of(x)}, {"e", of(e)}, {"t_x", of(one)}, {"d_t_y", of(one)}, {"d_e", of(both)}});
  EXPECT_DOUBLE_EQ(both[0], 4 * (1 + 3 * std::log(2.0)));
  EXPECT_DOUBLE_EQ(both[1], 0.5);
  EXPECT_DOUBLE_EQ(both[2], 2);
}

TEST(Powers, TakeIntegersOfOtherTypesAsTheyAre) {
  ProgramBuilder p("mixed");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto e = p.input<std::int32_t>("e", {n});
  auto f = p.input<float>("f", {n});
  auto y = p.output<double>("y", {n}), z = p.output<double>("z", {n}), a = p.output<double>("a", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = pow(x(i), 2) + pow(x(i), e(i)) * pow(2.0, x(i));
    z(i) = atan2(e(i), x(i)) + pow(f(i), x(i)) + atan2(x(i), cast<double>(cast<float>(e(i))));
    a(i) = pow(e(i), x(i)) + x(i) * e(i) * x(i);
  }
  const Program program = p.build();
  std::vector<double> X = {0.5, 2}, results[2];
  std::vector<std::int32_t> E = {3, 16777217};
  std::vector<float> F = {2, 3};
  for (const Target target : {Target::Interpreter, Target::OpenMP}) {
    CompileOptions options;
    options.target = target;
    std::vector<double> Y(2), Z(2), A(2), d_x(2), one = {1, 1};
    const GradientExecutable gradient = compile_gradient(program, {.wrt = {"x"}, .of = {}}, options);
    Arguments arrays = {{"x", view(X.data(), {2})}, {"e", view(E.data(), {2})}, {"f", view(F.data(), {2})},
                        {"y", view(Y.data(), {2})}, {"z", view(Z.data(), {2})}, {"a", view(A.data(), {2})}};
    gradient.forward(arrays);
    arrays.insert({{"d_y", view(one.data(), {2})},
                   {"d_z", view(one.data(), {2})},
                   {"d_a", view(one.data(), {2})},
                   {"d_x", view(d_x.data(), {2})}});
    gradient.backward(arrays);
    EXPECT_DOUBLE_EQ(A[1], 16777217.0 * 16777217.0 + 4.0 * 16777217.0) << "an f32 between would round";
    auto& all = results[target == Target::OpenMP];
    for (const auto& values : {Y, Z, A, d_x}) all.insert(all.end(), values.begin(), values.end());
  }
  for (std::size_t i = 0; i < results[0].size(); ++i)
    EXPECT_TRUE(results[0][i] == results[1][i] ||
                std::abs(results[0][i] - results[1][i]) <= 1e-14 * std::abs(results[0][i]))
        << i << ": " << results[0][i] << " and " << results[1][i];
}

}  // namespace
}  // namespace loopgrad::test
