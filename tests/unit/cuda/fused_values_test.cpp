// What the threads of a kernel load once, or keep to themselves: unroll_short_loops, keep_last_elements,
// unswitch_kernels.
#include "dsl/ir/rewriter.h"
#include "tests/unit/transforms/lowered.h"
#include "transforms/loops/unswitch.h"
#include "transforms/map/gpu/unroll_short_loops.h"
#include "transforms/storage/keep_last_elements.h"

namespace loopgrad::transforms {
namespace {

enum class Short { SharedLoad, NothingShared, AlongRows, Long };

LoweredProgram with_short_loop(Short what) {
  ProgramBuilder p("levels");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto w = p.input<double>("w", {3});
  auto y = p.output<double>("y", {9, n});
  auto z = p.output<double>("z", {n, 9});
  for (auto t : p.loop("t", 1, what == Short::Long ? 8 : 3))
    for (auto i : p.loop("i", 0, n)) {
      if (what == Short::AlongRows) z(i, t) = x(i);
      else if (what == Short::NothingShared) y(t, i) = 2.0 * w(t);
      else y(t, i) = 2.0 * x(i);
    }
  const LoweredProgram result = passed(p.build(), unroll_short_loops);
  for (const std::int64_t n_value : {0, 1, 5}) expect_same_results(result, {{"n", n_value}});
  return result;
}

TEST(UnrollShortLoops, IterationsThatLoadTheSameShareAThread) {
  const LoweredProgram result = with_short_loop(Short::SharedLoad);
  EXPECT_NE(result.text.find("y[1, i] = 2*x[i]"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("y[2, i] = 2*x[i]"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("for t"), std::string::npos) << result.text;
}

TEST(UnrollShortLoops, OthersStay) {
  for (const Short what : {Short::NothingShared, Short::AlongRows, Short::Long}) {
    const LoweredProgram result = with_short_loop(what);
    EXPECT_NE(result.text.find("for t"), std::string::npos) << result.text;
  }
}

TEST(UnrollShortLoops, ShortSumsAreStatementsInARow) {
  ProgramBuilder p("two_levels");
  auto n = p.size("n");
  auto x = p.input<double>("x", {3, n});
  auto y = p.inout<double>("y", {n});
  auto z = p.inout<double>("z", {n});
  for (auto i : p.loop("i", 0, n)) {
    for (auto t : p.loop("t", 1, 3)) y(i) = y(i) * x(t, i);
    for (auto t : p.loop("s", 0, n)) z(i) = z(i) * x(0, t);
  }
  const LoweredProgram result = passed(p.build(), unroll_short_loops);
  EXPECT_EQ(result.text.find("for t"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("y[i] = y[i]*x[2, i]"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("for s"), std::string::npos) << result.text;
  expect_same_results(result, {{"n", 4}});
}

TEST(UnrollShortLoops, StatementsInARowKeepTheOrderOfTheLoop) {
  ProgramBuilder p("backwards");
  auto n = p.size("n");
  auto x = p.input<double>("x", {3, n});
  auto y = p.inout<double>("y", {n});
  for (auto i : p.loop("i", 0, n))
    for (auto t : p.loop("t", 0, 3)) y(i) = y(i) * 0.5 + x(t, i);
  LoweredProgram result;
  result.before = p.build().ir();
  const auto reversed = [](const ir::Stmt& s) -> std::optional<ir::Stmt> {
    auto* loop = s.as<ir::For>();
    if (!loop || loop->iterator.name != "t") return std::nullopt;
    return ir::for_loop(loop->iterator, loop->lower, loop->upper, loop->body, ir::LoopMode::Backward);
  };
  result.before = ir::with_body(result.before, ir::rewrite(result.before.body, {}, reversed));
  result.after = unroll_short_loops(shared_passes(result.before, SumMode::Restructured, result.report));
  result.text = ir::print(result.after.body);
  EXPECT_EQ(result.text.find("for t"), std::string::npos) << result.text;
  EXPECT_LT(result.text.find("x[2, i]"), result.text.find("x[0, i]")) << result.text;
  expect_same_results(result, {{"n", 4}});
}

enum class Last { OnlyOwn, ReadLater, Neighbour, OtherLevel, Updated, FromItself };

/// A nest that stores elements of a local array and reads some of them.
LoweredProgram with_last_nest(Last what) {
  ProgramBuilder p("last_nest");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto z = p.output<double>("z", {n});
  auto v = p.local<double>("v", {2, n});
  for (auto i : p.loop("i", 0, n)) {
    v(0, i) = x(i);
    v(1, i) = 3.0 * x(i);
  }
  for (auto i : p.loop("j", 0, n)) {
    if (what == Last::Updated) v(0, i) += 2.0 * x(i);
    else if (what == Last::FromItself) v(0, i) = -2.0 * v(0, i) + v(1, i);
    else v(0, i) = -2.0 * v(1, i);
    y(i) = v(0, i) + v(1, i);
    if (what == Last::Neighbour) p.when(i > 0, [&] { y(i) += v(0, i - 1); });
    if (what == Last::OtherLevel) v(1, i) = y(i);
  }
  if (what == Last::ReadLater)
    for (auto i : p.loop("k", 0, n)) z(i) = v(0, i);
  const LoweredProgram result = passed(p.build(), keep_last_elements);
  for (const std::int64_t n_value : {0, 1, 5}) expect_same_results(result, {{"n", n_value}});
  return result;
}

TEST(KeepLastElements, WhatOnlyItsIterationReadsStaysInARegister) {
  const LoweredProgram result = with_last_nest(Last::OnlyOwn);
  EXPECT_NE(result.text.find("y[j] = v_kept + v[1, j]"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("v[0, j]"), std::string::npos) << result.text;
}

TEST(KeepLastElements, WhatWasThereBeforeIsLoadedFirst) {
  for (const Last what : {Last::Updated, Last::FromItself}) {
    const LoweredProgram result = with_last_nest(what);
    const char* loaded = what == Last::Updated ? "v_kept = v[0, j]\n" : "v_kept = -2*v[0, j] + v[1, j]\n";
    EXPECT_NE(result.text.find(loaded), std::string::npos) << result.text;
    EXPECT_EQ(result.text.find("v[0, j] ="), std::string::npos) << result.text;
    EXPECT_EQ(result.text.find("v[0, j] +="), std::string::npos) << result.text;
  }
}

TEST(KeepLastElements, WhatOthersReadOrChangeStaysInMemory) {
  for (const Last what : {Last::ReadLater, Last::Neighbour, Last::OtherLevel}) {
    const LoweredProgram result = with_last_nest(what);
    EXPECT_EQ(result.text.find("v_kept"), std::string::npos) << result.text;
  }
}

TEST(UnswitchKernels, TheHostAsksWhatDecidesAboutLoads) {
  ProgramBuilder p("first_step");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {T, n});
  for (auto t : p.loop("t", 0, T))
    for (auto i : p.loop("i", 0, n)) y(t, i) = 2.0 * select(t > 0, y(t - 1, i), x(i)) + select(t > 0, 1.0, 0.5);
  const LoweredProgram result = passed(p.build(), unswitch_kernels);
  EXPECT_EQ(result.text.find("select"), std::string::npos) << result.text;
  EXPECT_EQ(outer_parallel_loops(result.after.body).size(), 2u) << result.text;
  for (const std::int64_t steps : {0, 1, 4}) expect_same_results(result, {{"n", 5}, {"T", steps}});
}

TEST(UnswitchKernels, WhatThreadsDecideStays) {
  ProgramBuilder p("first_row");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = select(i > 0, x(i - 1), x(i));
  const LoweredProgram result = passed(p.build(), unswitch_kernels);
  EXPECT_NE(result.text.find("select"), std::string::npos) << result.text;
}

}  // namespace
}  // namespace loopgrad::transforms
