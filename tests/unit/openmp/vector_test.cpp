// Vector lanes: the f32 functions of generated code, and which sequential loops may use lanes.
#include "backends/openmp/emitter.h"
#include "tests/unit/openmp/kernels.h"
#include "tests/unit/transforms/passes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace loopgrad::test {
namespace {

/// Distance from the exact value in units of the last place of the nearest float.
double ulps(float got, double exact) {
  const auto nearest = static_cast<float>(exact);
  if (std::isnan(nearest) && std::isnan(got)) return 0;
  if (got == nearest) return 0;
  if (!std::isfinite(nearest) || !std::isfinite(got)) return std::numeric_limits<double>::infinity();
  int exponent = 0;
  std::frexp(nearest, &exponent);
  return std::abs(got - exact) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

class VectorMath : public testing::Test {
 protected:
  VectorMath() : n(0) {
    for (std::uint32_t bits = 0; bits < 0xfffff000u; bits += 4099) x.push_back(std::bit_cast<float>(bits));
    const float edges[] = {0.0f,        -0.0f,      1.0f,      INFINITY,   -INFINITY,
                           NAN,         88.72283f,  88.72284f, -87.33654f, -103.97208f,
                           -103.97209f, 0.625f,     -0.625f,   1e-45f,     1.17549435e-38f,
                           0.70710677f, 0.70710683f};
    x.insert(x.end(), std::begin(edges), std::end(edges));
    n = static_cast<std::int64_t>(x.size());
  }

  static lg::Program program() {
    lg::ProgramBuilder p("functions");
    auto size = p.size("n");
    auto in = p.input<float>("x", {size});
    auto exp = p.output<float>("exp", {size});
    auto log = p.output<float>("log", {size});
    auto tanh = p.output<float>("tanh", {size});
    auto sigmoid = p.output<float>("sigmoid", {size});
    for (auto i : p.loop("i", 0, size)) {
      exp(i) = lg::exp(in(i));
      log(i) = lg::log(in(i));
      tanh(i) = lg::tanh(in(i));
      sigmoid(i) = lg::sigmoid(in(i));
    }
    return p.build();
  }

  /// exp, log, tanh and sigmoid of x[first:].
  std::vector<std::vector<float>> results(std::int64_t first, int threads) {
    std::vector<std::vector<float>> out(4, std::vector<float>(static_cast<std::size_t>(n - first)));
    auto of = [&](int f) { return view(out[static_cast<std::size_t>(f)].data(), {n - first}); };
    run(parallel(program(), {"i"}),
        {{"x", view(x.data() + first, {n - first})},
         {"exp", of(0)},
         {"log", of(1)},
         {"tanh", of(2)},
         {"sigmoid", of(3)}},
        {}, threads);
    return out;
  }

  std::vector<float> x;
  std::int64_t n;
};

TEST_F(VectorMath, CloseToTheExactValues) {
  double (*const exact[4])(double) = {[](double v) { return std::exp(v); }, [](double v) { return std::log(v); },
                                      [](double v) { return std::tanh(v); },
                                      [](double v) { return 1 / (1 + std::exp(-v)); }};
  const double bounds[4] = {1.1, 1.0, 1.5, 2.5};
  const auto out = results(0, 2);
  for (std::size_t f = 0; f < 4; ++f)
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(ulps(out[f][i], exact[f](x[i])), bounds[f]) << "function " << f << " of " << x[i];
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(std::signbit(out[2][i]), std::signbit(x[i])) << x[i];
}

TEST_F(VectorMath, SameBitsInEveryLaneAndOutside) {
  const auto all = results(0, 1);
  for (const std::int64_t first : {1, 3, 6}) {
    const auto shifted = results(first, 3);
    for (std::size_t f = 0; f < 4; ++f)
      EXPECT_EQ(std::memcmp(shifted[f].data(), all[f].data() + first, shifted[f].size() * sizeof(float)), 0) << f;
  }
}

/// The pragma of the one loop of a program, or "" when it has none.
std::string simd_pragma(const ir::Program& program) {
  const std::string source = emitted({program}).source;
  const std::size_t begin = source.find("#pragma omp simd", source.find("_run("));
  return begin == std::string::npos ? "" : source.substr(begin, source.find('\n', begin) - begin);
}

TEST(SimdReductions, IterationsMayWriteElementsOfTheirOwn) {
  lg::ProgramBuilder p("rows");
  auto n = p.size("n");
  auto x = p.input<float>("x", {2, n});
  auto y = p.inout<float>("y", {n});
  auto total = p.output<float>("total", {2});
  auto s = p.scalar<float>("s"), t = p.scalar<float>("t");
  s = 0;
  t = 0;
  for (auto i : p.loop("i", 0, n)) {
    y(i) += x(0, i);
    s += y(i) * x(1, i);
    t += x(0, i);
  }
  total(0) = s;
  total(1) = t;
  const ir::Program program = with_mode(p.build().ir(), {"i"}, ir::LoopMode::Backward);
  EXPECT_EQ(simd_pragma(program), "#pragma omp simd reduction(+ : s_, t_)");
  const std::int64_t count = 1003;
  const auto X = numbers(2 * count);
  std::vector<float> Y(count, 0.5f), T(2);
  run(program, {{"x", view(X.data(), {2, count})}, {"y", view(Y.data(), {count})}, {"total", view(T.data(), {2})}});
  double expected_s = 0, expected_t = 0;
  for (std::size_t i = 0; i < 1003; ++i) {
    EXPECT_EQ(Y[i], 0.5f + X[i]);
    expected_s += static_cast<double>(Y[i]) * X[1003 + i];
    expected_t += X[i];
  }
  EXPECT_NEAR(T[0], expected_s, 1e-4);
  EXPECT_NEAR(T[1], expected_t, 1e-4);
}

TEST(SimdReductions, OfIntegersToo) {
  lg::ProgramBuilder p("range");
  auto n = p.size("n");
  auto x = p.input<std::int64_t>("x", {n});
  auto range = p.output<std::int64_t>("range", {2});
  auto least = p.scalar<std::int64_t>("least"), most = p.scalar<std::int64_t>("most");
  least = x(0);
  most = x(0);
  for (auto i : p.loop("i", 0, n)) {
    least.min_with(x(i));
    most.max_with(x(i));
  }
  range(0) = least;
  range(1) = most;
  const ir::Program program = with_mode(p.build().ir(), {"i"}, ir::LoopMode::Backward);
  EXPECT_EQ(simd_pragma(program), "#pragma omp simd reduction(min_of : least_) reduction(max_of : most_)");
  for (const std::int64_t count : {1, 7, 1003}) {
    std::vector<std::int64_t> X(static_cast<std::size_t>(count)), R(2);
    for (std::size_t i = 0; i < X.size(); ++i) X[i] = std::int64_t{1} << (i % 63);
    X.back() = -5;
    run(program, {{"x", view(X.data(), {count})}, {"range", view(R.data(), {2})}});
    EXPECT_EQ(R[0], -5);
    EXPECT_EQ(R[1], *std::max_element(X.begin(), X.end()));
  }
}

TEST(SimdReductions, NotWhereIterationsMeet) {
  auto pragma_of = [](auto body) {
    lg::ProgramBuilder p("meet");
    auto n = p.size("n");
    auto x = p.input<float>("x", {n});
    auto k = p.input<std::int32_t>("k", {n});
    auto y = p.inout<float>("y", {n, n});
    auto s = p.scalar<float>("s");
    s = 0;
    for (auto i : p.loop("i", 1, n)) body(i, x, k, y, s);
    y(0, 0) = s;
    return simd_pragma(p.build().ir());
  };
  using lg::Value;
  EXPECT_NE(pragma_of([](const Value& i, auto& x, auto&, auto&, auto& s) { s += x(i); }), "");
  EXPECT_NE(pragma_of([](const Value& i, auto& x, auto&, auto& y, auto&) { y(0, i) = x(i); }), "");
  // The element of the iteration before; one element for all; an unknown element; a scalar that is read; two
  // operations.
  EXPECT_EQ(pragma_of([](const Value& i, auto& x, auto&, auto& y, auto&) { y(0, i) = y(0, i - 1) + x(i); }), "");
  EXPECT_EQ(pragma_of([](const Value& i, auto& x, auto&, auto& y, auto&) { y(0, 0) = x(i); }), "");
  EXPECT_EQ(pragma_of([](const Value& i, auto& x, auto& k, auto& y, auto&) { y(0, k(i)) += x(i); }), "");
  EXPECT_EQ(pragma_of([](const Value& i, auto& x, auto&, auto& y, auto& s) { s += x(i), y(0, i) = s; }), "");
  EXPECT_EQ(pragma_of([](const Value& i, auto& x, auto&, auto&, auto& s) { s += x(i), s *= x(i); }), "");
  EXPECT_EQ(pragma_of([](const Value& i, auto& x, auto&, auto&, auto& s) { s = x(i); }), "");
}

TEST(SimdReductions, MinimaAndMaximaKeepTheTieRule) {
  lg::ProgramBuilder p("extremes");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto out = p.inout<float>("out", {2});
  auto product = p.output<double>("product", {1});
  auto least = p.scalar<float>("least"), most = p.scalar<float>("most");
  auto s = p.scalar<double>("s");
  least = out(0);
  most = out(1);
  s = 1.0;
  for (auto i : p.loop("i", 0, n)) {
    least.min_with(x(i));
    most.max_with(x(i));
    s *= lg::select(i % 2 == 0, 2.0, 0.5);
  }
  out(0) = least;
  out(1) = most;
  product(0) = s;
  const lg::Program program = p.build();
  const std::string source = emitted({program.ir()}).source;
  EXPECT_NE(source.find("reduction(* : s_) reduction(min_of : least_) reduction(max_of : most_)"), std::string::npos)
      << source;

  for (const std::int64_t count : {0, 1, 1003}) {
    for (const float start : {0.25f, NAN, INFINITY}) {
      auto values = numbers(1003);
      values[17] = NAN;  // never taken: it compares false
      std::vector<float> got = {start, start}, expected = got;
      std::vector<double> factor = {0};
      run(program.ir(),
          {{"x", view(values.data(), {count})}, {"out", view(got.data(), {2})}, {"product", view(factor.data(), {1})}});
      for (std::int64_t i = 0; i < count; ++i) {
        const float v = values[static_cast<std::size_t>(i)];
        expected[0] = v < expected[0] ? v : expected[0];
        expected[1] = expected[1] < v ? v : expected[1];
      }
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), 8), 0)
          << count << ' ' << start << ' ' << got[0] << ' ' << got[1];
      EXPECT_EQ(factor[0], count % 2 ? 2.0 : 1.0);
    }
  }
}

enum class Term { Product, Quotient, Exponential, Backwards };

/// Eight sums over one loop at a time.
template <class T>
ir::Program scores(Term term) {
  lg::ProgramBuilder p("scores");
  auto n = p.size("n"), k = p.size("k"), d = p.size("d");
  auto q = p.input<T>("q", {n, d}), key = p.input<T>("key", {k, d});
  auto y = p.output<T>("y", {n, k});
  auto last = p.output<T>("last", {n});
  for (auto i : p.loop("i", 0, n)) {
    for (auto o : p.loop("o", 0, k)) {
      y(i, o) = 1;
      for (auto c : p.loop("c", 0, d)) {
        if (term == Term::Product) y(i, o) += q(i, c) * key(o, c);
        if (term == Term::Quotient) y(i, o) += -(q(i, c) - 3) / key(i, 0);
        if (term == Term::Exponential) y(i, o) += exp(key(o, c));
        if (term == Term::Backwards) y(i, o) += q(i, d - 1 - c) * key(o, c);
      }
    }
    last(i) = y(i, k - 1);
  }
  return transforms::mapped_to_cpu(parallel(p.build(), {"i", "o"}));
}

/// Sums of small integers are exact in every order.
template <class T>
void expect_exact_sums(std::int64_t k, std::int64_t d) {
  const std::int64_t n = 2;
  std::vector<T> q, key, y(static_cast<std::size_t>(n * k)), last(static_cast<std::size_t>(n));
  for (std::int64_t at = 0; at < n * d; ++at) q.push_back(static_cast<T>(at % 7 - 3));
  for (std::int64_t at = 0; at < k * d; ++at) key.push_back(static_cast<T>(at % 11 - 4));
  run(scores<T>(Term::Product), {{"q", view(q.data(), {n, d})},
                                 {"key", view(key.data(), {k, d})},
                                 {"y", view(y.data(), {n, k})},
                                 {"last", view(last.data(), {n})}});
  for (std::int64_t at = 0; at < n * k; ++at) {
    T expected = 1;
    for (std::int64_t c = 0; c < d; ++c)
      expected += q[static_cast<std::size_t>(at / k * d + c)] * key[static_cast<std::size_t>(at % k * d + c)];
    ASSERT_EQ(y[static_cast<std::size_t>(at)], expected) << "k = " << k << ", d = " << d << ", at " << at;
  }
}

TEST(LaneSums, AreRightForAllLengths) {
  for (const std::int64_t k : {8, 17})
    for (const std::int64_t d : {1, 7, 8, 9, 16, 29}) {
      expect_exact_sums<float>(k, d);
      expect_exact_sums<double>(k, d);
    }
}

TEST(LaneSums, AreForArithmeticOnNeighboursOnly) {
  auto in_lanes = [](Term term) {
    return emitted({scores<float>(term)}).source.find("add_up_lanes") != std::string::npos;
  };
  EXPECT_TRUE(in_lanes(Term::Product));
  EXPECT_TRUE(in_lanes(Term::Quotient));
  EXPECT_FALSE(in_lanes(Term::Exponential));
  EXPECT_FALSE(in_lanes(Term::Backwards));
}

/// OpenMP has no threads in a loop over lanes, and a single trip has no use for lanes.
TEST(Lanes, HoldNoThreads) {
  for (const std::int64_t trips : {1, 2, 5}) {
    lg::ProgramBuilder p("nested");
    auto n = p.size("n");
    auto x = p.input<double>("x", {n});
    auto index = p.input<std::int32_t>("index", {n});
    auto y = p.output<double>("y", {trips, n});
    for (auto i : p.loop("i", 0, trips))
      for (auto j : p.loop("j", 0, 3)) y(i, j) = x(index(i)) * x(index(i + 1));
    const lg::Program program = p.build();
    const ir::Program sequential = with_mode(parallel(program, {"i", "j"}), {"i"}, ir::LoopMode::Forward);
    for (const ir::Program& form : {parallel(program, {"i", "j"}), sequential}) {
      std::vector<double> X = {1, 2, 3, 4, 5, 6, 7, 8}, Y(static_cast<std::size_t>(8 * trips));
      std::vector<std::int32_t> I = {1, 2, 3, 4, 5, 6, 7, 0};
      run(form, {{"x", view(X.data(), {8})}, {"index", view(I.data(), {8})}, {"y", view(Y.data(), {trips, 8})}});
      for (std::int64_t i = 0; i < trips; ++i)
        for (std::size_t j = 0; j < 3; ++j) EXPECT_EQ(Y[static_cast<std::size_t>(8 * i) + j], (2.0 + i) * (3.0 + i));
    }
  }
}

}  // namespace
}  // namespace loopgrad::test
