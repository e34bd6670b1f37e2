// Types, operators and functions of generated code against plain C++.
#include "tests/unit/openmp/kernels.h"

#include "backends/runtime/conversions.h"

#include <cmath>
#include <cstring>

namespace loopgrad::test {
namespace {

TEST(RunOpenMP, LazyOperandsLoadNothingOutside) {
  lg::ProgramBuilder p("guarded");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = lg::select(i > 0, x(i - 1), 0.0f) + lg::select(i + 1 < n, x(i + 1), 0.0f);
    p.when(i > 0 && x(i - 1) > 0.0f, [&] { y(i) = -1.0f; });
  }
  const std::int64_t N = 4099;
  const auto X = numbers(N);
  std::vector<float> Y(N);
  run(parallel(p.build(), {"i"}), {{"x", view(X.data(), {N})}, {"y", view(Y.data(), {N})}});
  for (std::int64_t i = 0; i < N; ++i) {
    const float left = i > 0 ? X[i - 1] : 0, right = i + 1 < N ? X[i + 1] : 0;
    ASSERT_EQ(Y[i], i > 0 && left > 0 ? -1.0f : left + right);
  }
}

TEST(RunOpenMP, IntegerArithmeticWrapsAndDivisionFloors) {
  lg::ProgramBuilder p("integers");
  auto n = p.size("n");
  auto a = p.input<std::int32_t>("a", {n});
  auto b = p.input<std::int32_t>("b", {n});
  auto quotient = p.output<std::int32_t>("quotient", {n});
  auto rest = p.output<std::int32_t>("rest", {n});
  auto product = p.output<std::int32_t>("product", {n});
  auto hash = p.output<std::int64_t>("hash", {n});
  for (auto i : p.loop("i", 0, n)) {
    quotient(i) = a(i) / b(i);
    rest(i) = a(i) % b(i);
    product(i) = a(i) * b(i) + a(i);
    hash(i) = lg::cast<std::int64_t>(a(i)) * std::int64_t{6364136223846793005} + std::int64_t{1442695040888963407};
  }
  const std::vector<std::int32_t> A = {7, -7, 7, -7, INT32_MIN, INT32_MAX, 0, INT32_MIN, 6, -6, 1};
  const std::vector<std::int32_t> B = {2, 2, -2, -2, -1, 2, 5, 3, 3, 3, INT32_MIN};
  const auto N = static_cast<std::int64_t>(A.size());
  std::vector<std::int32_t> q(N), r(N), m(N);
  std::vector<std::int64_t> h(N);
  run(parallel(p.build(), {"i"}), {{"a", view(A.data(), {N})},
                                   {"b", view(B.data(), {N})},
                                   {"quotient", view(q.data(), {N})},
                                   {"rest", view(r.data(), {N})},
                                   {"product", view(m.data(), {N})},
                                   {"hash", view(h.data(), {N})}});
  for (std::int64_t i = 0; i < N; ++i) {
    const std::int64_t floored = static_cast<std::int64_t>(std::floor(static_cast<double>(A[i]) / B[i]));
    EXPECT_EQ(q[i], static_cast<std::int32_t>(floored)) << A[i] << " / " << B[i];
    EXPECT_EQ(r[i], static_cast<std::int32_t>(A[i] - floored * B[i])) << A[i] << " % " << B[i];
    EXPECT_EQ(m[i], static_cast<std::int32_t>(static_cast<std::uint32_t>(A[i]) * static_cast<std::uint32_t>(B[i]) +
                                              static_cast<std::uint32_t>(A[i])));
    EXPECT_EQ(h[i], static_cast<std::int64_t>(static_cast<std::uint64_t>(static_cast<std::int64_t>(A[i])) *
                                                  6364136223846793005u +
                                              1442695040888963407u));
  }
}

TEST(RunOpenMP, TieRuleOfMinAndMax) {
  lg::ProgramBuilder p("ties");
  auto a = p.input<float>("a", {6});
  auto b = p.input<float>("b", {6});
  auto least = p.output<float>("least", {6});
  auto most = p.output<float>("most", {6});
  for (auto i : p.loop("i", 0, 6)) {
    least(i) = lg::min(a(i), b(i));
    most(i) = lg::max(a(i), b(i));
  }
  const std::vector<float> A = {0.0f, -0.0f, NAN, 1.0f, 1.0f, INFINITY}, B = {-0.0f, 0.0f, 1.0f, NAN, 2.0f, -INFINITY};
  std::vector<float> lo(6), hi(6);
  run(parallel(p.build(), {"i"}), {{"a", view(A.data(), {6})},
                                   {"b", view(B.data(), {6})},
                                   {"least", view(lo.data(), {6})},
                                   {"most", view(hi.data(), {6})}});
  for (std::size_t i = 0; i < 6; ++i) {
    const float least_expected = B[i] < A[i] ? B[i] : A[i], most_expected = A[i] < B[i] ? B[i] : A[i];
    EXPECT_EQ(std::memcmp(&lo[i], &least_expected, 4), 0) << i;
    EXPECT_EQ(std::memcmp(&hi[i], &most_expected, 4), 0) << i;
  }
}

TEST(RunOpenMP, SixteenBitStorageRoundsToNearestEven) {
  for (const ScalarType type : {ScalarType::F16, ScalarType::BF16}) {
    lg::ProgramBuilder p("storage");
    auto n = p.size("n");
    auto x = p.input<float>("x", {n});
    auto h = p.output(type, "h", {n});
    auto back = p.output<float>("back", {n});
    auto sum = p.inout(type, "sum", {1});
    for (auto i : p.loop("i", 0, n)) h(i) = x(i);
    for (auto i : p.loop("k", 0, n)) back(i) = h(i) * 3.0f;
    for (auto i : p.loop("l", 0, n)) p.when(h(i) < 1.0f, [&] { sum(0) += h(i); });
    std::vector<float> X = {0.0f,      -0.0f, 1.0f,           0.1f,           65504.0f, 65520.0f,
                            1e-7f,     6e-8f, 1.00048828125f, 1.00146484375f, 3.4e38f,  INFINITY,
                            -INFINITY, NAN,   2.98e-8f,       -1e30f,         0.333333f};
    const auto random = numbers(1001);
    X.insert(X.end(), random.begin(), random.end());
    const auto N = static_cast<std::int64_t>(X.size());
    HostArray H(type, {N}), S(type, {1}), expected(type, {1});
    std::vector<float> Y(N);
    const ir::Program program = parallel(p.build(), {"i", "k"});
    run(program, {{"x", view(X.data(), {N})}, {"h", H.view()}, {"back", view(Y.data(), {N})}, {"sum", S.view()}});
    for (std::int64_t i = 0; i < N; ++i) {
      expected.set(0, X[i]);
      const auto stored = static_cast<float>(expected.get(0));
      if (std::isnan(stored)) {
        EXPECT_TRUE(std::isnan(H.get(i)));
        continue;
      }
      EXPECT_EQ(H.get(i), stored) << X[i];
      EXPECT_EQ(std::signbit(H.get(i)), std::signbit(stored)) << X[i];
      EXPECT_EQ(Y[i], stored * 3.0f) << X[i];
    }
    expected.set(0, 0);
    for (std::int64_t i = 0; i < N; ++i)  // rounded after every addition
      if (H.get(i) < 1) expected.set(0, static_cast<float>(expected.get(0)) + static_cast<float>(H.get(i)));
    EXPECT_EQ(S.get(0), expected.get(0));
  }
}

TEST(RunOpenMP, MathFunctionsAgreeWithTheStandardLibrary) {
  lg::ProgramBuilder p("functions");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n, 12});
  for (auto i : p.loop("i", 0, n)) {
    y(i, 0) = lg::exp(x(i));
    y(i, 1) = lg::log(lg::abs(x(i)) + 1.0);
    y(i, 2) = lg::sigmoid(100 * lg::Value(x(i)));
    y(i, 3) = lg::tanh(x(i)) + lg::erf(x(i));
    y(i, 4) = lg::pow(lg::abs(x(i)), 1.5);
    y(i, 5) = lg::atan2(x(i), x(i) + 2.0);
    y(i, 6) = lg::floor(3 * lg::Value(x(i))) + lg::ceil(x(i));
    y(i, 7) = lg::log1p(x(i) * x(i)) - lg::expm1(x(i));
    y(i, 8) = lg::sin(x(i)) + lg::cos(x(i)) + lg::tan(x(i));
    y(i, 9) = lg::asin(x(i)) + lg::acos(x(i)) + lg::atan(x(i));
    y(i, 10) = lg::sinh(x(i)) - lg::cosh(x(i));
    y(i, 11) = lg::sqrt(lg::abs(x(i))) + lg::sigmoid(-1000 * lg::Value(x(i)));
  }
  const std::int64_t N = 101;
  std::vector<double> X, Y(N * 12);
  for (const float value : numbers(N)) X.push_back(value);
  run(parallel(p.build(), {"i"}), {{"x", view(X.data(), {N})}, {"y", view(Y.data(), {N, 12})}});
  auto sigmoid = [](double a) { return 1 / (1 + std::exp(-a)); };
  for (std::int64_t i = 0; i < N; ++i) {
    const double a = X[i];
    const double expected[12] = {std::exp(a),
                                 std::log(std::abs(a) + 1),
                                 sigmoid(100 * a),
                                 std::tanh(a) + std::erf(a),
                                 std::pow(std::abs(a), 1.5),
                                 std::atan2(a, a + 2),
                                 std::floor(3 * a) + std::ceil(a),
                                 std::log1p(a * a) - std::expm1(a),
                                 std::sin(a) + std::cos(a) + std::tan(a),
                                 std::asin(a) + std::acos(a) + std::atan(a),
                                 std::sinh(a) - std::cosh(a),
                                 std::sqrt(std::abs(a)) + sigmoid(-1000 * a)};
    for (int f = 0; f < 12; ++f)
      ASSERT_NEAR(Y[i * 12 + f], expected[f], 1e-13 * std::max(1.0, std::abs(expected[f]))) << f;
  }
}

TEST(RunOpenMP, AtomicReductionsOfEveryOperationAndType) {
  for (const ScalarType type :
       {ScalarType::I32, ScalarType::I64, ScalarType::F16, ScalarType::BF16, ScalarType::F32, ScalarType::F64}) {
    lg::ProgramBuilder p("atomics");
    auto n = p.size("n");
    auto index = p.input<std::int32_t>("index", {n});
    auto sum = p.inout(type, "sum", {3});
    auto product = p.inout(type, "product", {3});
    auto least = p.inout(type, "least", {3});
    auto most = p.inout(type, "most", {3});
    for (auto i : p.loop("i", 0, n)) {
      sum(index(i)) += 1;
      product(index(i)) *= -1;
      least(index(i)).min_with(lg::cast(value_type(type), i % 90));
      most(index(i)).max_with(lg::cast(value_type(type), i % 90));
    }
    const std::int64_t N = type == ScalarType::BF16 ? 700 : 6001;  // sums that every type can hold
    std::vector<std::int32_t> I(N);
    for (std::int64_t i = 0; i < N; ++i) I[i] = static_cast<std::int32_t>(i % 3);
    HostArray S(type, {3}), P(type, {3}), lo(type, {3}), hi(type, {3});
    for (int i = 0; i < 3; ++i) P.set(i, 1), lo.set(i, 50);
    run(atomic(parallel(p.build(), {"i"})),
        {{"index", view(I.data(), {N})},
         {"sum", S.view()},
         {"product", P.view()},
         {"least", lo.view()},
         {"most", hi.view()}},
        {}, 4);
    for (std::int64_t k = 0; k < 3; ++k) {
      const std::int64_t count = (N - k + 2) / 3;
      EXPECT_EQ(S.get(k), static_cast<double>(count)) << name_of(type);
      EXPECT_EQ(P.get(k), count % 2 ? -1 : 1) << name_of(type);
      EXPECT_EQ(lo.get(k), static_cast<double>(k)) << name_of(type);
      EXPECT_EQ(hi.get(k), static_cast<double>(87 + k)) << name_of(type);
    }
  }
}

TEST(RunOpenMP, BoolArrays) {
  lg::ProgramBuilder p("flags");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto f = p.output<bool>("f", {n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    f(i) = x(i) > 0.0f && !(x(i) > 0.5f);
    y(i) = lg::select(f(i), 1.0f, lg::cast<float>(f(i)) - 1.0f);
  }
  const auto X = numbers(77);
  const auto F = std::make_unique<bool[]>(77);
  std::vector<float> Y(77);
  run(parallel(p.build(), {"i"}),
      {{"x", view(X.data(), {77})}, {"f", view(F.get(), {77})}, {"y", view(Y.data(), {77})}});
  for (std::size_t i = 0; i < 77; ++i) {
    EXPECT_EQ(F[i], X[i] > 0 && X[i] <= 0.5f);
    EXPECT_EQ(Y[i], F[i] ? 1.0f : -1.0f);
  }
}

/// What C++ leaves undefined has a value in the language, the same on every target.
TEST(RunOpenMP, CastsSaturateAndDivisionByZeroGivesZero) {
  lg::ProgramBuilder p("edges");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto k = p.input<std::int32_t>("k", {n});
  auto l = p.input<std::int64_t>("l", {n});
  auto y = p.output<std::int64_t>("y", {n, 14});
  for (auto i : p.loop("i", 0, n)) {
    y(i, 0) = lg::cast<std::int32_t>(x(i));
    y(i, 1) = lg::cast<std::int64_t>(x(i));
    y(i, 2) = lg::cast<std::int32_t>(lg::cast<float>(x(i)));
    y(i, 3) = lg::cast<std::int64_t>(lg::cast<float>(x(i)));
    y(i, 4) = k(i) / (k(i) - k(i));
    y(i, 5) = k(i) % (k(i) - k(i));
    y(i, 6) = l(i) / 0;
    y(i, 7) = (l(i) + std::numeric_limits<std::int64_t>::min()) / (l(i) - l(i) - 1);
    y(i, 8) = (k(i) + (-2147483647 - 1)) / (k(i) - k(i) - 1);
    y(i, 9) = (k(i) + (-2147483647 - 1)) % (k(i) - k(i) - 1);
    y(i, 10) = lg::max(k(i) + (-2147483647 - 1), k(i)) + l(i);
    y(i, 11) = lg::abs(k(i) + (-2147483647 - 1)) - lg::min(k(i), -2147483647 - 1);
    y(i, 12) = lg::select(k(i) > 0, k(i) * 2147483647, -2147483647 - 1);
    y(i, 13) = k(i) - (-2147483647 - 1) + (k(i) > 0) * l(i) + ((k(i) > 0) + (l(i) > 0));
  }
  const lg::Program program = p.build();
  const std::vector<double> X = {NAN,
                                 INFINITY,
                                 -INFINITY,
                                 1e300,
                                 -1e30,
                                 2147483647.9,
                                 2147483648.0,
                                 -2147483648.9,
                                 -2147483649.0,
                                 9.3e18,
                                 -9223372036854775808.0,
                                 -0.9,
                                 1e10};
  const auto N = static_cast<std::int64_t>(X.size());
  std::vector<std::int32_t> K(X.size(), 3);
  std::vector<std::int64_t> L(X.size(), 5);
  K[0] = 0, K[1] = -1, K[2] = INT32_MIN, L[0] = 0, L[3] = -7;
  std::vector<std::int64_t> results[2];
  for (const Target target : {Target::Interpreter, Target::OpenMP}) {
    auto& Y = results[target == Target::OpenMP];
    Y.resize(X.size() * 14);
    CompileOptions options;
    options.target = target;
    compile(program, options)
        .run({{"x", view(X.data(), {N})},
              {"k", view(K.data(), {N})},
              {"l", view(L.data(), {N})},
              {"y", view(Y.data(), {N, 14})}});
  }
  for (std::size_t i = 0; i < results[0].size(); ++i)
    EXPECT_EQ(results[0][i], results[1][i]) << "x = " << X[i / 14] << ", column " << i % 14;
  auto column = [&](std::size_t c) {
    std::vector<std::int64_t> out;
    for (std::size_t i = 0; i < X.size(); ++i) out.push_back(results[1][14 * i + c]);
    return out;
  };
  constexpr std::int64_t low = INT32_MIN, high = INT32_MAX, lowest = INT64_MIN, highest = INT64_MAX;
  const std::vector<std::int64_t> as_i32 = {0, high, low, high, low, high, high, low, low, high, low, 0, high};
  EXPECT_EQ(column(0), as_i32);
  EXPECT_EQ(column(2), as_i32);
  EXPECT_EQ(column(1), (std::vector<std::int64_t>{0, highest, lowest, highest, lowest, 2147483647, 2147483648,
                                                  -2147483648, -2147483649, highest, lowest, 0, 10000000000}));
  EXPECT_EQ(column(4), std::vector<std::int64_t>(X.size(), 0));
  EXPECT_EQ(column(6), std::vector<std::int64_t>(X.size(), 0));
  EXPECT_EQ(column(7)[0], lowest);
  EXPECT_EQ(column(8)[0], low);
  EXPECT_EQ(column(9)[0], 0);
  EXPECT_EQ(column(10)[1], high - 0 + 5) << "-1 + INT32_MIN wraps around";
}

}  // namespace
}  // namespace loopgrad::test
