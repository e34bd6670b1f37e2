// Where generated code keeps local arrays and the stack of the naive tape, and that it reports when memory is short.
#include "backends/openmp/stack.h"
#include "tests/unit/openmp/kernels.h"

#include "tests/error/expect_error.h"

#include "backends/runtime/conversions.h"

#include <pthread.h>

#include <functional>

namespace loopgrad::test {
namespace {

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
  const std::string source = emitted({program}).source;
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
  backend::HostStack stack;
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
  std::vector<float> Y(8, -1);
  expect_error<RuntimeError>(ErrorCode::OutOfMemory, {"huge"}, [&] {
    run(program, {{"y", view(Y.data(), {8})}}, {{"m", std::int64_t{1} << 24}});  // 2 PiB
  });
  expect_error<UsageError>(ErrorCode::BadSize, {"huge", "'row'", "64 bits"}, [&] {
    run(program, {{"y", view(Y.data(), {8})}}, {{"m", std::int64_t{1} << 40}});
  });
  EXPECT_EQ(Y, std::vector<float>(8, -1));
  run(program, {{"y", view(Y.data(), {8})}}, {{"m", 3}});
  EXPECT_EQ(Y[7], 1);
}

/// t0 from y, then each local array from the one before, in the other order.
void chain(lg::ProgramBuilder& p, int count, const lg::Element& first,
           const std::function<void(const lg::Value&)>& end) {
  std::vector<lg::ArrayHandle> t;
  for (int k = 0; k < count; ++k) t.push_back(p.local<double>("t", {2048}));
  for (int k = 0; k < count; ++k)
    for (auto e : p.loop("e", 0, 2048)) t[k](e) = k == 0 ? lg::Value(first) : t[k - 1](2047 - e) + 1.0;
  end(t.back()(0));
}

/// On a thread with a stack of 256 KiB.
void with_little_stack(std::function<void()> work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  pthread_t thread;
  auto start = [](void* what) -> void* {
    (*static_cast<std::function<void()>*>(what))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, start, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

TEST(RunOpenMP, ManySmallLocalsFitOnALittleStack) {
  constexpr int count = 40;  // of 16 KiB
  lg::ProgramBuilder p("many_locals"), q("many_in_each_iteration");
  auto y = p.inout<double>("y", {2});
  chain(p, count, y(0), [&](const lg::Value& last) { y(1) = last; });
  auto n = q.size("n");
  auto z = q.inout<double>("z", {n});
  for (auto i : q.loop("i", 0, n)) chain(q, count, z(i), [&](const lg::Value& last) { z(i) = last; });

  const ir::Program once = p.build().ir(), each = parallel(q.build(), {"i"});
  std::vector<double> Y = {5, 0}, Z(9, 7);
  with_little_stack([&] {
    run(once, {{"y", view(Y.data(), {2})}});
    run(each, {{"z", view(Z.data(), {9})}});
  });
  EXPECT_EQ(Y[1], 5 + count - 1);
  EXPECT_EQ(Z, std::vector<double>(9, 7 + count - 1));
}

TEST(RunOpenMP, ExtentsThatDoNotFitAreErrors) {
  lg::ProgramBuilder p("wraps");
  auto n = p.size("n"), m = p.size("m");
  auto y = p.inout<float>("y", {n});
  auto t = p.local<float>("t", {m * m});
  for (auto i : p.loop("i", 0, n)) t(i * 1000) = y(i);
  for (auto i : p.loop("j", 0, n)) y(i) = t(i * 1000) + 1.0f;
  std::vector<float> Y(100, 1);
  const Arguments arguments = {{"y", view(Y.data(), {100})}};
  expect_error<UsageError>(ErrorCode::BadSize, {"wraps", "'t'", "m*m"}, [&] {
    run(p.build().ir(), arguments, {{"m", std::int64_t{1} << 32}});
  });

  lg::ProgramBuilder q("wraps_inside");
  auto k = q.size("k"), w = q.size("w");
  auto z = q.inout<float>("y", {k});
  for (auto i : q.loop("i", 0, k)) {
    auto part = q.local<float>("part", {(i + 1) * w * w});
    part(i * 1000) = z(i);
    z(i) = part(i * 1000) + 1.0f;
  }
  const lg::Program inside = q.build();
  for (const ir::Program& program : {inside.ir(), parallel(inside, {"i"})})
    expect_error<RuntimeError>(ErrorCode::OutOfMemory, {"wraps_inside"}, [&] {
      run(program, arguments, {{"w", std::int64_t{1} << 32}});
    });

  lg::ProgramBuilder r("long_loop");
  auto s = r.size("s");
  auto v = r.inout<float>("y", {100});
  for (auto i : r.loop("i", 0, s * s)) v(i % 100) = 2.0f;
  expect_error<UsageError>(ErrorCode::BadSize, {"long_loop", "'i'", "s*s"}, [&] {
    run(r.build().ir(), arguments, {{"s", std::int64_t{1} << 32}});
  });
  EXPECT_EQ(Y, std::vector<float>(100, 1));
}

}  // namespace
}  // namespace loopgrad::test
