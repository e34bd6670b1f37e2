#include "transforms/map/gpu/peel_last_steps.h"

#include "dsl/ir/rewriter.h"
#include "tests/unit/transforms/lowered.h"
#include "transforms/storage/keep_last_elements.h"

namespace loopgrad::transforms {
namespace {

enum class After { LastLevel, BothLevels, Neighbour, OtherBounds };

ir::Program run_backwards(const ir::Program& program) {
  const auto reversed = [](const ir::Stmt& s) -> std::optional<ir::Stmt> {
    const auto* loop = s.as<ir::For>();
    if (!loop || loop->iterator.name != "t") return std::nullopt;
    return ir::for_loop(loop->iterator, loop->lower, loop->upper, loop->body, ir::LoopMode::Backward);
  };
  return ir::with_body(program, ir::rewrite(program.body, {}, reversed));
}

/// Steps that use two levels in turn, a nest after them, and both passes on these.
LoweredProgram steps(After after, bool backward) {
  ProgramBuilder p("steps");
  auto n = p.size("n"), steps = p.size("T");
  auto x = p.input<double>("x", {n});
  auto y = p.inout<double>("y", {n});
  auto v = p.local<double>("v", {2, n});
  for (auto l : p.loop("l", 0, 2))
    for (auto i : p.loop("i", 0, n)) v(l, i) = x(i);
  for (auto t : p.loop("t", 1, steps + 1))
    for (auto i : p.loop("i", 1, n - 1)) v(t % 2, i) += 2.0 * v((t + 1) % 2, i + 1) - v((t + 1) % 2, i - 1);
  const bool other = after == After::OtherBounds;
  for (auto k : p.loop("k", other ? 0 : 1, other ? n : n - 1)) {
    if (after == After::BothLevels) y(k) = v(0, k) + v(1, k);
    else if (after == After::LastLevel) y(k) = 3.0 * v(steps % 2, k);
    else if (after == After::Neighbour) y(k) = v(1, k - 1);
    else y(k) = v(0, k) - v(1, k);
  }
  LoweredProgram result;
  result.before = backward ? run_backwards(p.build().ir()) : p.build().ir();
  const LowerOptions options;
  PassContext context{options, result.report};
  result.after =
      keep_last_elements(peel_last_steps(shared_passes(result.before, SumMode::Restructured, result.report), context));
  ir::verify(result.after, "peel_last_steps");
  result.text = ir::print(result.after.body);
  for (const std::int64_t count : {0, 1, 2, 3, 4})
    for (const std::int64_t n_value : {2, 3, 7}) expect_same_results(result, {{"n", n_value}, {"T", count}});
  return result;
}

TEST(PeelLastSteps, WhatTheLastStepStoresForTheNextNestStaysInARegister) {
  const LoweredProgram result = steps(After::BothLevels, true);
  EXPECT_NE(result.text.find("for t in 2..T + 1 reversed"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("y[i] = v[0, i] + v_kept"), std::string::npos) << result.text;
}

TEST(PeelLastSteps, TheLastOfAForwardLoopIsAtItsEnd) {
  const LoweredProgram result = steps(After::LastLevel, false);
  EXPECT_NE(result.text.find("for t in 1..T:"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("v[T%2, i]"), std::string::npos) << result.text;
}

TEST(PeelLastSteps, NotWhereTheNestsDoNotFuse) {
  for (const After after : {After::Neighbour, After::OtherBounds})
    EXPECT_NE(steps(after, true).text.find("for t in 1..T + 1 reversed"), std::string::npos) << static_cast<int>(after);
}

}  // namespace
}  // namespace loopgrad::transforms
