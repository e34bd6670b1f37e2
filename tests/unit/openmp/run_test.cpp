// Loops and sums of generated code against plain C++, at sizes that fit no vector and no chunk.
#include "tests/unit/openmp/kernels.h"

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

/// Tables of which each reads what the others have of earlier iterations. g++ 12.2 splits such loops in a wrong order,
/// unless it is told not to split any.
TEST(RunOpenMP, TablesThatReadEachOther) {
  lg::ProgramBuilder p("tables");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<float>("a", {n + 1, m + 1}), b = p.inout<float>("b", {n + 1, m + 1}),
       c = p.inout<float>("c", {n + 1, m + 1});
  const auto soft = [&](const Value& x, const Value& y, const Value& z) {
    auto most = p.let("most", max(max(x, y), z));
    return most + log(exp(x - most) + exp(y - most) + exp(z - most));
  };
  for (auto [i, j] : p.loop({"i", 1, n + 1}, {"j", 1, m + 1})) {
    a(i, j) = soft(a(i - 1, j - 1), b(i - 1, j - 1), c(i - 1, j - 1));
    b(i, j) = soft(a(i - 1, j) - 1.0f, b(i - 1, j) - 0.5f, c(i - 1, j) - 1.0f);
    c(i, j) = soft(a(i, j - 1) - 1.0f, c(i, j - 1) - 0.5f, b(i, j - 1) - 1.0f);
  }
  const lg::Program program = p.build();
  const std::int64_t rows = 5, columns = 6;
  const auto result = [&](Target target) {
    std::vector<std::vector<float>> all;
    for (const int seed : {1, 2, 3}) all.push_back(numbers(rows * columns, static_cast<std::uint32_t>(seed)));
    lg::compile(program, {.target = target})
        .run({{"a", view(all[0].data(), {rows, columns})},
              {"b", view(all[1].data(), {rows, columns})},
              {"c", view(all[2].data(), {rows, columns})}});
    return all;
  };
  const auto compiled = result(Target::OpenMP), interpreted = result(Target::Interpreter);
  for (std::size_t k = 0; k < 3; ++k)
    for (std::size_t e = 0; e < compiled[k].size(); ++e)
      EXPECT_NEAR(compiled[k][e], interpreted[k][e], 1e-5) << k << ' ' << e;
}

}  // namespace
}  // namespace loopgrad::test
