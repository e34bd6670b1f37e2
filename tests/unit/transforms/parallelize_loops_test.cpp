#include "tests/unit/transforms/lowered.h"

namespace loopgrad::transforms {
namespace {

using Names = std::vector<std::string>;

const LoopDecision& decision_on(const Report& report, const std::string& loop) {
  auto found = std::find_if(report.loops.begin(), report.loops.end(),
                            [&](const LoopDecision& decision) { return decision.loop == loop; });
  if (found == report.loops.end()) throw std::runtime_error("no decision on loop " + loop);
  return *found;
}

TEST(ParallelizeLoops, MarksWhatNoIterationShares) {
  ProgramBuilder p("rows");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<float>("s");
    s = 0.0f;
    for (auto j : p.loop("j", 0, m)) s += x(i, j);
    y(i) = s;
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(outer_parallel_loops(l.after.body), Names{"i"});
  EXPECT_TRUE(decision_on(l.report, "i").parallel);
  EXPECT_FALSE(decision_on(l.report, "j").parallel);
  EXPECT_EQ(decision_on(l.report, "i").where.file, l.before.body->location.file);
  expect_same_results(l, {{"n", 5}, {"m", 4}});
}

TEST(ParallelizeLoops, NamesAConcreteConflict) {
  ProgramBuilder p("recurrence");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  for (auto i : p.loop("i", 1, n)) x(i) = 0.5f * x(i - 1);
  LoweredProgram l = lowered(p.build());
  const LoopDecision& decision = decision_on(l.report, "i");
  EXPECT_FALSE(decision.parallel);
  EXPECT_NE(decision.reason.find("x[i - 1] at parallelize_loops_test.cpp"), std::string::npos) << decision.reason;
  EXPECT_NE(decision.reason.find("i = 1 and i = 2 (n = 3)"), std::string::npos) << decision.reason;
}

TEST(ParallelizeLoops, TimeStepsAreSequentialTheirBodiesParallel) {
  ProgramBuilder p("double_buffer");
  auto n = p.size("n"), steps = p.size("steps");
  auto u = p.inout<float>("u", {n});
  auto v = p.local<float>("v", {n});
  for (auto t : p.loop("t", 0, steps)) {
    (void)t;
    for (auto i : p.loop("i", 0, n)) v(i) = u(i) + select(i > 0, u(max(i - 1, 0)), 0.0f);
    for (auto j : p.loop("j", 0, n)) u(j) = v(j);
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(outer_parallel_loops(l.after.body), (Names{"i", "j"}));
  EXPECT_EQ(outer_sequential_loops(l.after.body), Names{"t"});
  expect_same_results(l, {{"n", 6}, {"steps", 3}});
}

TEST(ParallelizeLoops, WhilesAreNotParallelWhatIsInThemMayBe) {
  ProgramBuilder p("newton");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  for (auto w : p.loop_while("w", 5, [&](const Value&) { return x(0) > 0.1f; })) {
    (void)w;
    for (auto i : p.loop("i", 0, n)) x(i) = 0.5f * x(i);
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(outer_parallel_loops(l.after.body), Names{"i"});
  EXPECT_FALSE(decision_on(l.report, "w").parallel);
  expect_same_results(l, {{"n", 3}});
}

TEST(ParallelizeLoops, FactsDecide) {
  for (bool injective : {false, true}) {
    ProgramBuilder p("scatter");
    auto n = p.size("n");
    auto to = p.input<int>("to", {n});
    auto x = p.input<float>("x", {n});
    auto y = p.inout<float>("y", {n});
    if (injective) p.injective(to);
    else p.in_range(to, 0, n);
    for (auto i : p.loop("i", 0, n)) y(to(i)) = x(i);
    LoweredProgram l = lowered(p.build());
    EXPECT_EQ(outer_parallel_loops(l.after.body).empty(), !injective);
    expect_same_results(l, {{"n", 9}});
  }
}

TEST(ParallelizeLoops, IndicesThatTheProgramChangesProveNothing) {
  ProgramBuilder p("changed");
  auto n = p.size("n");
  auto to = p.inout<int>("to", {n});
  auto y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) to(i) = cast<int>(i / 2);
  for (auto j : p.loop("j", 0, n)) y(to(j)) = cast<float>(j);
  Program program = p.build();
  ir::Program stated = program.ir();  // the language refuses facts about arrays that are written; the IR does not
  stated.facts.push_back({ir::FactKind::Injective, ir::find_array(stated, "to"), {}, {}, {}, {}});
  Report report;
  ir::Program after = shared_passes(stated, SumMode::Restructured, report);
  EXPECT_EQ(outer_parallel_loops(after.body), Names{"i"});
}

TEST(ParallelizeLoops, SumsWithoutConflictNeedNoPlan) {
  ProgramBuilder p("own_elements");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) y(i) += x(i, j);
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(plan_of(l.report, "y"), "none");
  EXPECT_EQ(l.report.sums.size(), 1u);
}

TEST(ParallelizeLoops, BackwardLoopsMayBeParallel) {
  ProgramBuilder p("backward");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  for (auto i : p.loop("i", 0, n)) x(i) = 2.0f * x(i);
  Program program = p.build();
  ir::Program reversed = program.ir();
  const ir::For& loop = *reversed.body.as<ir::For>();
  reversed.body = ir::for_loop(loop.iterator, loop.lower, loop.upper, loop.body, ir::LoopMode::Backward);
  Report report;
  ir::Program after = shared_passes(reversed, SumMode::Restructured, report);
  EXPECT_EQ(after.body.as<ir::For>()->mode, ir::LoopMode::Parallel);
}

TEST(ParallelizeLoops, SaysWhichAssignmentsCouldBeSums) {
  ProgramBuilder p("sums");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto s = p.output<float>("s", {}), t = p.output<float>("t", {});
  s() = 0.0f;
  t() = 0.0f;
  for (auto i : p.loop("i", 0, n)) {
    s() = s() - 2.0f * x(i);
    t() = t() * x(i) + x(i);  // a recurrence is no sum
  }
  const LoweredProgram l = lowered(p.build());
  std::string remarks;
  for (const Remark& remark : l.report.remarks) remarks += remark.text + "\n";
  EXPECT_NE(remarks.find("written 's -= 2*x[i]', they may be shared out"), std::string::npos) << remarks;
  EXPECT_EQ(remarks.find("'t "), std::string::npos) << remarks;
}

}  // namespace
}  // namespace loopgrad::transforms
