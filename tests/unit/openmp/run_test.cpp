// Generated code against plain C++, at sizes that fit no vector and no chunk.
#include "tests/unit/openmp/kernels.h"

#include "backends/runtime/conversions.h"

#include <cmath>
#include <cstring>

namespace loopgrad::test {
namespace {

lg::Program conv1d() {
  lg::ProgramBuilder p("conv1d");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {n + k - 1});
  auto w = p.input<float>("w", {k});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0;
    for (auto j : p.loop("j", 0, k)) y(i) += x(i + j) * w(j);
  }
  return p.build();
}

TEST(RunOpenMP, Convolution) {
  const std::int64_t n = 10007, k = 37;
  const auto x = numbers(n + k - 1), w = numbers(k, 2);
  std::vector<float> y(n, NAN), serial(n, NAN);
  run(parallel(conv1d(), {"i"}),
      {{"x", view(x.data(), {n + k - 1})}, {"w", view(w.data(), {k})}, {"y", view(y.data(), {n})}});
  run(conv1d().ir(), {{"x", view(x.data(), {n + k - 1})}, {"w", view(w.data(), {k})}, {"y", view(serial.data(), {n})}});
  for (std::int64_t i = 0; i < n; ++i) {
    double expected = 0;
    for (std::int64_t j = 0; j < k; ++j) expected += double(x[i + j]) * w[j];
    ASSERT_NEAR(y[i], expected, 2e-5) << i;
    ASSERT_NEAR(serial[i], expected, 2e-5) << i;
  }
}

TEST(RunOpenMP, SameBitsForAnyNumberOfThreads) {
  const std::int64_t n = 40013, k = 29;
  const auto x = numbers(n + k - 1), w = numbers(k, 2);
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3, 5}) {
    std::vector<float> y(n);
    run(parallel(conv1d(), {"i"}),
        {{"x", view(x.data(), {n + k - 1})}, {"w", view(w.data(), {k})}, {"y", view(y.data(), {n})}}, {}, threads);
    results.push_back(y);
  }
  for (const auto& y : results) EXPECT_EQ(std::memcmp(y.data(), results[0].data(), n * sizeof(float)), 0);
}

TEST(RunOpenMP, EmptyAndSingleExtents) {
  for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {1, 1}, {3, 0}, {1, 5}}) {
    const std::int64_t extent = n + k - 1;
    const std::vector<float> x(16, 2), w(16, 3);
    std::vector<float> y(16, -1);
    run(parallel(conv1d(), {"i"}),
        {{"x", view(x.data(), {extent})}, {"w", view(w.data(), {k})}, {"y", view(y.data(), {n})}});
    for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(y[i], i < n ? 6.0f * k : -1.0f) << n << ' ' << k << ' ' << i;
  }
}

TEST(RunOpenMP, LoopsOfOneRegionWaitForEachOther) {
  const std::int64_t n = 100003;
  lg::ProgramBuilder p("mirrors");
  auto extent = p.size("n");
  auto x = p.inout<float>("x", {extent}), y = p.output<float>("y", {extent});
  for (int k = 0; k < 3; ++k) {
    for (auto i : p.loop("i", 0, extent)) y(i) = x(extent - 1 - i) + 1.0f;
    for (auto i : p.loop("i", 0, extent)) x(i) = y(extent - 1 - i) * 2.0f;
  }
  const auto start = numbers(n);
  std::vector<float> values = start, mirrored(n);
  run(parallel(p.build(), {"i"}), {{"x", view(values.data(), {n})}, {"y", view(mirrored.data(), {n})}}, {}, 4);
  for (std::int64_t i = 0; i < n; ++i) {
    float expected = start[static_cast<std::size_t>(i)];
    for (int k = 0; k < 3; ++k) expected = (expected + 1.0f) * 2.0f;
    ASSERT_EQ(values[static_cast<std::size_t>(i)], expected) << i;
  }
}

TEST(RunOpenMP, MatrixProductCollapsed) {
  lg::ProgramBuilder p("matmul");
  auto n = p.size("n"), m = p.size("m"), l = p.size("l");
  auto a = p.input<double>("a", {n, l});
  auto b = p.input<double>("b", {l, m});
  auto c = p.inout<double>("c", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m))
      for (auto k : p.loop("k", 0, l)) c(i, j) += a(i, k) * b(k, j);
  const std::int64_t N = 53, M = 41, L = 67;
  std::vector<double> A(N * L), B(L * M), C(N * M, 0.5);
  for (std::size_t i = 0; i < A.size(); ++i) A[i] = double(i % 13) - 6;
  for (std::size_t i = 0; i < B.size(); ++i) B[i] = double(i % 7) - 3;
  run(parallel(p.build(), {"i", "j"}),
      {{"a", view(A.data(), {N, L})}, {"b", view(B.data(), {L, M})}, {"c", view(C.data(), {N, M})}});
  for (std::int64_t i = 0; i < N; ++i)
    for (std::int64_t j = 0; j < M; ++j) {
      double expected = 0.5;
      for (std::int64_t k = 0; k < L; ++k) expected += A[i * L + k] * B[k * M + j];
      ASSERT_EQ(C[i * M + j], expected);  // small integers: exact in any order
    }
}

TEST(RunOpenMP, GraphWithMaximaAndEmptyRows) {
  lg::ProgramBuilder p("graph");
  auto v = p.size("v"), e = p.size("e"), d = p.size("d");
  auto ptr = p.input<std::int32_t>("ptr", {v + 1});
  auto col = p.input<std::int32_t>("col", {e});
  auto h = p.input<float>("h", {v, d});
  auto most = p.output<float>("most", {v, d});
  auto least = p.output<float>("least", {v});
  for (auto r : p.loop("r", 0, v)) {
    for (auto f : p.loop("f", 0, d)) most(r, f) = -1e30f;
    least(r) = 1e30f;
    for (auto j : p.loop("j", ptr(r), ptr(r + 1))) {
      for (auto f : p.loop("f", 0, d)) most(r, f).max_with(h(col(j), f));
      least(r).min_with(h(col(j), 0));
    }
  }
  const std::int64_t V = 1009, D = 11;
  std::vector<std::int32_t> P = {0}, cols;
  for (std::int64_t r = 0; r < V; ++r) {
    for (std::int64_t j = 0; j < r % 5; ++j) cols.push_back(static_cast<std::int32_t>((r * 7 + j * 131) % V));
    P.push_back(static_cast<std::int32_t>(cols.size()));
  }
  const auto E = static_cast<std::int64_t>(cols.size());
  const auto H = numbers(V * D);
  std::vector<float> hi(V * D), lo(V);
  run(parallel(p.build(), {"r", "f"}), {{"ptr", view(P.data(), {V + 1})},
                                        {"col", view(cols.data(), {E})},
                                        {"h", view(H.data(), {V, D})},
                                        {"most", view(hi.data(), {V, D})},
                                        {"least", view(lo.data(), {V})}});
  for (std::int64_t r = 0; r < V; ++r) {
    float least_expected = 1e30f;
    for (std::int32_t j = P[r]; j < P[r + 1]; ++j) least_expected = std::min(least_expected, H[cols[j] * D]);
    ASSERT_EQ(lo[r], least_expected);
    for (std::int64_t f = 0; f < D; ++f) {
      float expected = -1e30f;
      for (std::int32_t j = P[r]; j < P[r + 1]; ++j) expected = std::max(expected, H[cols[j] * D + f]);
      ASSERT_EQ(hi[r * D + f], expected);
    }
  }
}

TEST(RunOpenMP, DataDependentLoopsAndBranches) {
  lg::ProgramBuilder p("collatz");
  auto n = p.size("n");
  auto steps = p.output<std::int64_t>("steps", {n});
  auto kind = p.output<std::int32_t>("kind", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto value = p.scalar<std::int64_t>("value");
    value = i + 1;
    steps(i) = 0;
    for (auto t : p.loop_while("t", 1000, [&](const lg::Value&) { return value != lg::Value(1); })) {
      p.when(lg::Value(value) % 2 == 0, [&] { value = value / 2; }).otherwise([&] {
        value = 3 * lg::Value(value) + 1;
      });
      steps(i) = t + 1;
    }
    kind(i) = lg::select(steps(i) > 100, 2, lg::select(steps(i) > 20, 1, 0));
  }
  const std::int64_t N = 2999;
  std::vector<std::int64_t> got(N);
  std::vector<std::int32_t> kinds(N);
  run(parallel(p.build(), {"i"}), {{"steps", view(got.data(), {N})}, {"kind", view(kinds.data(), {N})}});
  for (std::int64_t i = 0; i < N; ++i) {
    std::int64_t value = i + 1, count = 0;
    while (value != 1) value = value % 2 == 0 ? value / 2 : 3 * value + 1, ++count;
    ASSERT_EQ(got[i], count);
    ASSERT_EQ(kinds[i], count > 100 ? 2 : count > 20 ? 1 : 0);
  }
}

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

TEST(RunOpenMP, BackwardLoopsRunInReverse) {
  lg::ProgramBuilder p("suffix");
  auto n = p.size("n");
  auto x = p.inout<double>("x", {n});
  for (auto i : p.loop("i", 0, n - 1)) x(i) = x(i) + 0.5 * x(i + 1);
  const ir::Program program = with_mode(p.build().ir(), {"i"}, ir::LoopMode::Backward);
  std::vector<double> X = {1, 2, 3, 4, 5}, expected = X;
  for (int i = 3; i >= 0; --i) expected[i] += 0.5 * expected[i + 1];
  run(program, {{"x", view(X.data(), {5})}});
  EXPECT_EQ(X, expected);
}

TEST(RunOpenMP, BoundsAreReadOnceOnEntry) {
  lg::ProgramBuilder p("bounds");
  auto limit = p.inout<std::int32_t>("limit", {1});
  auto count = p.inout<std::int32_t>("count", {1});
  for ([[maybe_unused]] auto i : p.loop("i", 0, limit(0))) {
    limit(0) = 100;
    count(0) += 1;
  }
  std::vector<std::int32_t> L = {7}, C = {0};
  run(p.build().ir(), {{"limit", view(L.data(), {1})}, {"count", view(C.data(), {1})}});
  EXPECT_EQ(C[0], 7);
  EXPECT_EQ(L[0], 100);
}

TEST(RunOpenMP, PartialSumsInBlocks) {
  lg::ProgramBuilder p("blocks");
  auto n = p.size("n");
  const lg::Value blocks = lg::max(lg::min(64, n / 4), 1), length = (n + blocks - 1) / blocks;
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {1});
  auto part = p.local<double>("part", {blocks});
  for (auto b : p.loop("block", 0, blocks)) {
    part(b) = 0;
    for (auto i : p.loop("i", b * length, lg::min(n, (b + 1) * length))) part(b) += x(i);
  }
  y(0) = 0;
  for (auto b : p.loop("k", 0, blocks)) y(0) += part(b);
  const ir::Program program = parallel(p.build(), {"block"});
  for (const std::int64_t count : {0, 1, 3, 5, 257, 10001}) {
    std::vector<double> X(count), Y = {NAN};
    for (std::int64_t i = 0; i < count; ++i) X[i] = static_cast<double>(i + 1);
    run(program, {{"x", view(X.data(), {count})}, {"y", view(Y.data(), {1})}});
    EXPECT_EQ(Y[0], static_cast<double>(count * (count + 1) / 2));
  }
}

TEST(RunOpenMP, LocalsOfEachThreadAndIteration) {
  lg::ProgramBuilder p("scratch");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto row = p.local<float>("row", {m});            // one per thread
    auto part = p.local<float>("part", {i % 7 + 1});  // known in the iteration only
    auto few = p.local<double>("few", {3});           // on the stack
    auto large = p.local<float>("large", {5000});     // constant, but too large for the stack
    for (auto j : p.loop("j", 0, m)) row(j) = x(i, j) * 2;
    for (auto j : p.loop("j2", 0, i % 7 + 1)) part(j) = row(j) + 1;
    few(2) = lg::cast<double>(part(i % 7));
    large(4999) = row(m - 1);
    y(i) = lg::cast<float>(few(2)) + large(4999);
  }
  const std::int64_t N = 3001, M = 1501;
  const auto X = numbers(N * M);
  std::vector<float> Y(N);
  run(parallel(p.build(), {"i", "j"}), {{"x", view(X.data(), {N, M})}, {"y", view(Y.data(), {N})}});
  for (std::int64_t i = 0; i < N; ++i) ASSERT_EQ(Y[i], (X[i * M + i % 7] * 2 + 1) + X[i * M + M - 1] * 2);
}

TEST(RunOpenMP, LocalsInsideATimeLoopAreReservedOnce) {
  lg::ProgramBuilder p("steps");
  auto n = p.size("n"), steps = p.size("steps");
  auto u = p.inout<double>("u", {n});
  for ([[maybe_unused]] auto t : p.loop("t", 0, steps)) {
    auto next = p.local<double>("next", {n});
    for (auto i : p.loop("i", 0, n)) next(i) = u(i) + 0.25 * u((i + 1) % n);
    for (auto i : p.loop("k", 0, n)) u(i) = next(i);
  }
  const ir::Program program = parallel(p.build(), {"i", "k"});
  const std::string source = backend::emit_openmp({program}).source;
  EXPECT_LT(source.find(".reserve("), source.find("for (int64_t t"));
  const std::int64_t N = 30011;
  std::vector<double> U(N), expected(N);
  for (std::int64_t i = 0; i < N; ++i) U[i] = expected[i] = static_cast<double>(i % 17);
  run(program, {{"u", view(U.data(), {N})}}, {{"steps", 5}});
  for (int t = 0; t < 5; ++t) {
    const auto old = expected;
    for (std::int64_t i = 0; i < N; ++i) expected[i] = old[i] + 0.25 * old[(i + 1) % N];
  }
  EXPECT_EQ(U, expected);
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

TEST(RunOpenMP, SumsThatTheLoopReadsBackStayInMemory) {
  lg::ProgramBuilder p("prefix");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto y = p.inout<float>("y", {2});
  auto z = p.output<float>("z", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(0) += x(i);
    z(i) = y(0);
    p.when(x(i) > 0.0f, [&] { y(1) += x(i); });
  }
  const auto X = numbers(501);
  std::vector<float> Y = {1, 2}, Z(501);
  run(p.build().ir(), {{"x", view(X.data(), {501})}, {"y", view(Y.data(), {2})}, {"z", view(Z.data(), {501})}});
  float a = 1, b = 2;
  for (std::size_t i = 0; i < 501; ++i) {
    a += X[i];
    if (X[i] > 0) b += X[i];
    ASSERT_EQ(Z[i], a);
  }
  EXPECT_EQ(Y[0], a);
  EXPECT_EQ(Y[1], b);
}

TEST(RunOpenMP, SumsOverEmptyLoopsTouchNothing) {
  lg::ProgramBuilder p("empty");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n});
  auto y = p.inout<float>("y", {m});
  for (auto i : p.loop("i", 0, n)) y(m - 1) += x(i);  // with m = 0 the element does not exist
  float guard[3] = {1, 2, 3};
  run(p.build().ir(), {{"x", view<float>(nullptr, {0})}, {"y", view(guard + 1, {0})}});
  EXPECT_EQ(guard[0], 1);
  EXPECT_EQ(guard[1], 2);
}

TEST(RunOpenMP, StackReversesWhatWasPushed) {
  using namespace ir;
  const Symbol n = make_symbol("n"), i = make_symbol("i"), j = make_symbol("j");
  const Array x = make_array("x", ScalarType::F32, {var(n)}, ArrayRole::InOut, {});
  const Array k = make_array("k", ScalarType::I64, {var(n)}, ArrayRole::InOut, {});
  const Array h = make_array("h", ScalarType::F16, {var(n)}, ArrayRole::InOut, {});
  const Array b = make_array("b", ScalarType::Bool, {var(n)}, ArrayRole::InOut, {});
  const std::vector<Array> arrays = {x, k, h, b};
  std::vector<Stmt> pushes, pops;
  for (const Array& a : arrays) {
    pushes.push_back(push(load(a, {var(i)})));
    pushes.push_back(assign(a, {var(i)}, const_of(0, value_type(a->type))));
    pops.insert(pops.begin(), pop(a, {var(j)}));
  }
  const ir::Program forward{"f", {n}, arrays, {}, for_loop(i, int_const(0), var(n), block(pushes)), {}};
  const ir::Program backward{"b", {n}, arrays, {}, for_loop(j, int_const(0), var(n), block(pops), LoopMode::Backward),
                             {}};

  const std::int64_t N = 100003;
  auto X = numbers(N);
  const auto original = X;
  HostArray K(ScalarType::I64, {N}), H(ScalarType::F16, {N}), B(ScalarType::Bool, {N});
  for (std::int64_t e = 0; e < N; ++e) K.set(e, double(e * e)), H.set(e, double(e % 1000)), B.set(e, e % 3 == 0);
  const Arguments arguments = {{"x", view(X.data(), {N})}, {"k", K.view()}, {"h", H.view()}, {"b", B.view()}};
  backend::TapeStack stack;
  run(forward, arguments, {}, 1, &stack);
  EXPECT_EQ(stack.kernel.size, N * (4 + 8 + 4 + 1));
  EXPECT_EQ(stack.kernel.peak, stack.kernel.size);
  EXPECT_EQ(X[5], 0);
  run(backward, arguments, {}, 1, &stack);
  EXPECT_EQ(stack.kernel.size, 0);
  EXPECT_EQ(stack.kernel.peak, N * 17);
  EXPECT_EQ(X, original);
  for (std::int64_t e = 0; e < N; ++e) {
    ASSERT_EQ(K.get(e), double(e * e));
    ASSERT_EQ(H.get(e), double(e % 1000));
    ASSERT_EQ(B.get(e), e % 3 == 0);
  }
  // Popping from an empty stack is an error, not a read of foreign memory.
  try {
    run(backward, arguments, {}, 1, &stack);
    FAIL() << "no error";
  } catch (const RuntimeError& e) {
    EXPECT_NE(std::string(e.what()).find("stack of the forward run does not fit"), std::string::npos) << e.what();
  }
}

TEST(RunOpenMP, OutOfMemoryIsAnErrorAndNotTheEnd) {
  lg::ProgramBuilder p("huge");
  auto n = p.size("n"), m = p.size("m");
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto row = p.local<double>("row", {m, m});
    row(0, 0) = 1.0;
    auto late = p.local<double>("late", {i + m, m});
    late(0, 0) = row(0, 0);
    y(i) = lg::cast<float>(late(0, 0));
  }
  const ir::Program program = parallel(p.build(), {"i"});
  std::vector<float> Y(8);
  for (const std::int64_t huge : {std::int64_t{1} << 24, std::int64_t{1} << 40}) {  // 2 PiB; more than 64 bits
    try {
      run(program, {{"y", view(Y.data(), {8})}}, {{"m", huge}});
      FAIL() << "no error";
    } catch (const RuntimeError& e) {
      EXPECT_EQ(e.code(), ErrorCode::OutOfMemory);
      EXPECT_EQ(e.program(), "huge");
    }
  }
  run(program, {{"y", view(Y.data(), {8})}}, {{"m", 3}});
  EXPECT_EQ(Y[7], 1);
}

}  // namespace
}  // namespace loopgrad::test
