// Elements that are updated several times: each test fails without the pass, and what it makes computes the same in the
// checked interpreter.
#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "tests/unit/cuda/mapped.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

ir::Program mapped(const ir::Program& program) { return mapped_to_gpu(program); }

TEST(UpdateOnce, UpdatesOfOneElementGoToAScalar) {
  ProgramBuilder p("updates");
  auto n = p.size("n"), steps = p.size("T");
  auto u = p.inout<double>("u", {3, n});
  for (auto t : p.loop("t", 1, steps + 1))
    for (auto i : p.loop("i", 0, n)) {
      u(t % 3, i) += 2.0 * u((t - 1) % 3, i);
      p.when(i >= 1, [&] { u(t % 3, i) += u((t - 1) % 3, i - 1); });
      p.when(i <= n - 2, [&] { u(t % 3, i) += u((t - 1) % 3, i + 1); });
    }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("u_now = u[t%3, i]"), std::string::npos) << result.text;
  for (const std::int64_t n_value : {1, 2, 9}) expect_same_results(result, {{"n", n_value}, {"T", 4}});
}

TEST(UpdateOnce, AnElementThatALoopChangesIsLeftAloneWithoutATrip) {
  ProgramBuilder p("columns");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {m, n});
  auto s = p.inout<double>("s", {m, n});
  for (auto i : p.loop("i", 0, n))
    for (auto l : p.loop("l", 0, m)) s(0, i) += a(l, i);  // without a trip there is no s[0, i]
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("if 0 < m:"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("s_now = s[0, i]"), std::string::npos) << result.text;
  for (const std::int64_t m_value : {0, 1, 5}) expect_same_results(result, {{"n", 7}, {"m", m_value}});
}

TEST(UpdateOnce, AnElementThatIsAssignedFromItselfIsReadBefore) {
  ProgramBuilder p("scaled");
  auto n = p.size("n");
  auto s = p.inout<double>("s", {n});
  for (auto i : p.loop("i", 0, n)) {
    s(i) = 2.0 * s(i);
    s(i) = 1.0 + s(i);
  }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("s_now = 2*s[i]"), std::string::npos) << result.text;
  expect_same_results(result, {{"n", 5}});
}

TEST(UpdateOnce, AnElementIsOnlyReadWhereItsFirstAssignmentDoes) {
  ProgramBuilder p("chosen");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {n});
  auto s = p.output<double>("s", {n});
  for (auto i : p.loop("i", 0, n)) {
    s(i) = select(i < m, s(i), 0.5);  // has no value before
    s(i) += a(i);
  }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("s_now = select(i < m, s[i], 0.5)"), std::string::npos) << result.text;
  expect_same_results(result, {{"n", 5}, {"m", 0}});
}

TEST(UpdateOnce, AnElementThatABranchAssignsIsNotReadBefore) {
  ProgramBuilder p("first_or_next");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n});
  auto s = p.output<double>("s", {n});
  for (auto i : p.loop("i", 0, n)) p.when(i < 1, [&] { s(i) = 0.5; });
  for (auto i : p.loop("i", 0, n)) {
    p.when(i >= 1, [&] { s(i) = a(i); });  // has no value before
    s(i) += 2.0 * a(i);
  }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("s_now = s[i]"), std::string::npos) << result.text;
  for (const std::int64_t size : {0, 1, 2, 9}) expect_same_results(result, {{"n", size}});
}

TEST(UpdateOnce, ElementsThatAreNotUpdatedInAnyCaseAreLeftAlone) {
  ProgramBuilder p("guarded");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n});
  auto u = p.inout<double>("u", {n + 1});
  for (auto i : p.loop("i", 0, n)) {
    p.when(a(i) > 0.0, [&] { u(i + 1) += a(i); });
    p.when(a(i) > 0.5, [&] { u(i + 1) += 1.0; });
  }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_EQ(result.text.find("u_now"), std::string::npos) << result.text;
  expect_same_results(result, {{"n", 7}});
}

/// Assignments of 0.5 to elements go through a local, then to a GPU.
ir::Program assigned_in_scopes(const ir::Program& program) {
  const ir::Array half = ir::make_array("half", ScalarType::F64, {}, ir::ArrayRole::Local, {});
  return mapped_to_gpu(ir::with_body(
      program, ir::rewrite(program.body, {}, [&](const ir::Stmt& x) -> std::optional<ir::Stmt> {
        const auto* assign = x.as<ir::Assign>();
        if (!assign || !ir::is_const(assign->value, 0.5)) return std::nullopt;
        const ir::Stmt store = ir::assign(assign->array, assign->indices, ir::load(half, {}), assign->location);
        return ir::allocate(half, ir::block({ir::assign(half, {}, assign->value), store}));
      })));
}

TEST(UpdateOnce, AnElementThatIsAssignedInTheScopeOfALocalIsNotReadBefore) {
  ProgramBuilder p("scoped");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n});
  auto s = p.output<double>("s", {n});
  for (auto i : p.loop("i", 0, n)) {
    s(i) = 0.5;
    s(i) += a(i);
  }
  const LoweredProgram result = passed(p.build(), assigned_in_scopes);
  EXPECT_NE(result.text.find("s_now = half"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("s_now = s["), std::string::npos) << result.text;
  for (const std::int64_t size : {0, 5}) expect_same_results(result, {{"n", size}});
}

TEST(UpdateOnce, ABlockLoadsAnElementBeforeTheSumsOverOthersOfItsArray) {
  // As in a triangular solve: x[i, 0..i] are other elements than x[i, i].
  ProgramBuilder p("rows");
  auto n = p.size("n");
  auto x = p.inout<double>("x", {n, n});
  for (auto i : p.loop("i", 0, n)) {
    for (auto k : p.loop("k", 0, i)) x(i, i) -= x(i, k) * x(i, k);
    x(i, i) = x(i, i) * 0.5;
  }
  const LoweredProgram result =
      passed(p.build(), [](const ir::Program& program) { return mapped_to(gpu_machine(), program, 32); });
  const std::size_t loaded = result.text.find("x_now = x[i, i]"), sum = result.text.find("x_now_part");
  ASSERT_NE(loaded, std::string::npos) << result.text;
  EXPECT_LT(loaded, sum) << result.text;
  for (const std::int64_t n_value : {1, 2, 9}) expect_same_results(result, {{"n", n_value}});
}

TEST(UpdateOnce, ALoopThatAssignsAnElementAnewDoesNotReadItBefore) {
  ProgramBuilder p("again_and_again");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {m});
  auto s = p.output<double>("s", {n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      s(i) = a(j);  // has no value before
      s(i) += 0.5;
    }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_EQ(result.text.find("s_now = s[i]"), std::string::npos) << result.text;
  for (const std::int64_t trips : {1, 3}) expect_same_results(result, {{"n", 5}, {"m", trips}});
}

TEST(UpdateOnce, AnElementWithoutAValueIsNotReadBeforeTheTripThatChoosesSo) {
  ProgramBuilder p("first_trip_assigns");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) {
      y(i) = select(j > 0, 0.5 * y(i), 0.0);
      y(i) += x(j);
    }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("y_now = 0"), std::string::npos) << result.text;
  for (const std::int64_t n_value : {0, 1, 2, 5}) expect_same_results(result, {{"n", n_value}});
}

TEST(UpdateOnce, AnElementThatEveryPathAssignsIsNotReadBefore) {
  ProgramBuilder p("paths");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto z = p.output<double>("z", {n}), w = p.output<double>("w", {n});
  for (auto i : p.loop("i", 0, n)) {
    p.when(x(i) > 0.5,
           [&] {  // one of three
             w(i) = 2.0;
             p.when(x(i) > 0.75, [&] { z(i) = x(i) * x(i); }).otherwise([&] { z(i) = 1.0; });
           })
        .otherwise([&] {
          w(i) = 3.0;
          z(i) = 0.5 * x(i);
        });
    z(i) = z(i) * x(i);
    w(i) = w(i) * z(i);
  }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("z_now = z_now*x[i]"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("z_now = z[i]"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("w_now = w[i]"), std::string::npos) << result.text;
  for (const std::int64_t size : {0, 1, 9}) expect_same_results(result, {{"n", size}});
}

TEST(UpdateOnce, AnElementIsReadBeforeOnlyOnPathsThatUseIt) {
  ProgramBuilder p("some_paths");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n});
  auto z = p.output<double>("z", {n});
  for (auto i : p.loop("i", 0, m)) z(i) = 0.25 * x(i);
  for (auto i : p.loop("i", 0, n)) {
    p.when(i < m, [&] { z(i) += x(i); }).otherwise([&] { z(i) = x(i); });  // from m on it has no value before
    z(i) = z(i) * x(i);
  }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("z_now = z[i]"), std::string::npos) << result.text;
  for (const std::int64_t size : {0, 3, 5}) expect_same_results(result, {{"n", 5}, {"m", size}});
}

/// The condition is not what it was before the statements in between.
TEST(UpdateOnce, AConditionThatTheBodyChangesIsNotTestedBefore) {
  ProgramBuilder p("changed");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto c = p.inout<double>("c", {n}), z = p.inout<double>("z", {n});
  for (auto i : p.loop("i", 0, n)) {
    c(i) = x(i) - 0.75;
    p.when(c(i) > 0.0, [&] { z(i) = 2.0 * x(i); });
    z(i) += x(i);
  }
  const LoweredProgram result = passed(p.build(), mapped);
  EXPECT_NE(result.text.find("z_now += x[i]"), std::string::npos) << result.text;
  for (const std::int64_t size : {0, 1, 9}) expect_same_results(result, {{"n", size}});
}

TEST(UpdateOnce, ALoopOfOneTripBesideSingleStatementsKeepsItsIterator) {
  ProgramBuilder p("one_trip");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  p.when(x(0) > 0.0, [&] {
    for (auto j : p.loop("j", 0, 1)) y(0) = x(j);
    y(1) = y(0) + 0.5;
  });
  const LoweredProgram result = mapped_to_small_gpu(p.build());  // is verified: no iterator is left alone
  EXPECT_EQ(result.text.find("[j]"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("y[0] = x[0]"), std::string::npos) << result.text;
}

}  // namespace
}  // namespace loopgrad::transforms
