// Each primitive of a schedule: what it makes of a loop, that results stay the same in the checked interpreter, and the
// concrete conflict with which it refuses.
#include "tests/unit/transforms/scheduled.h"

#include <loopgrad/autodiff.h>

#include <fmt/format.h>

namespace loopgrad::transforms {
namespace {

Program transposed() {
  ProgramBuilder p("transposed");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {m, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) y(j, i) = x(i, j);
  return p.build();
}

/// x[i, j] depends on x[i - 1, j + 1]: neither interchange nor tiling is legal.
Program skewed() {
  ProgramBuilder p("skewed");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.inout<float>("x", {n, m});
  for (auto i : p.loop("i", 1, n))
    for (auto j : p.loop("j", 0, m - 1)) x(i, j) = 0.5f * x(i - 1, j + 1);
  return p.build();
}

Program triangle() {
  ProgramBuilder p("triangle");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n, n});
  auto y = p.output<float>("y", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, i + 1)) y(i, j) = 2.0f * x(j, i);
  return p.build();
}

Program recurrence() {
  ProgramBuilder p("recurrence");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  for (auto i : p.loop("i", 1, n)) x(i) = 0.5f * x(i - 1);
  return p.build();
}

TEST(Schedule, SplitsIntoBlocks) {
  EXPECT_EQ(after(transposed(), "split(j, 4)"),
            "for i in 0..n:\n"
            "  for j_tile in 0..(m + 3)//4:\n"
            "    for j in 4*j_tile..min(m, 4*j_tile + 4):\n"
            "      y[j, i] = x[i, j]\n");
  expect_same(transposed(), "split(j, 4); split(i, 3)", squares);
  expect_same(recurrence(), "split(i, 4)", {{{"n", 9}}, {{"n", 1}}});
}

TEST(Schedule, SplitsByHugeFactors) {
  const std::string largest = "9223372036854775807";
  expect_same(recurrence(), "split(i, " + largest + ")", {{{"n", 9}}, {{"n", 0}}});
  expect_same(recurrence(), "split(i, 4611686018427387904)", {{{"n", 9}}});
  expect_same(transposed(), "tile(i, j, " + largest + ", " + largest + ")", squares);
  expect_same(transposed(), "split(j, " + largest + "); split(j, " + largest + "); split(i, " + largest + ")", squares);
}

TEST(Schedule, SplitsAgainAndAgain) {
  std::string steps;
  for (int k = 0; k < 60; ++k) steps += "split(i, 2);";
  const LoweredProgram l = scheduled(recurrence(), Schedule::parse(steps), SumMode::Restructured);
  EXPECT_LE(l.text.size(), 1'000'000u);
  expect_same_results(l, {{"n", 9}});
}

TEST(Schedule, SplitsALoopThatRunsBackwards) {
  expect_same(transposed(), "reverse(j); split(j, 3); unroll(i, 2)", squares);
}

TEST(Schedule, Tiles) {
  EXPECT_EQ(after(transposed(), "tile(i, j, 4, 8)"),
            "for i_tile in 0..(n + 3)//4:\n"
            "  for j_tile in 0..(m + 7)//8:\n"
            "    for i in 4*i_tile..min(n, 4*i_tile + 4):\n"
            "      for j in 8*j_tile..min(m, 8*j_tile + 8):\n"
            "        y[j, i] = x[i, j]\n");
  expect_same(transposed(), "tile(i, j, 4, 2)", squares);
}

TEST(Schedule, RefusesToTileWhereADependencePointsBack) {
  std::string text = refusal(skewed(), "tile(i, j, 4, 4)");
  EXPECT_HAS(text, "cannot tile 'i' and 'j': x[i, j] is written at schedule_test.cpp:");
  EXPECT_HAS(text, "and read as x[i - 1, j + 1] at schedule_test.cpp:");
}

TEST(Schedule, Interchanges) {
  EXPECT_EQ(after(transposed(), "interchange(i, j)"),
            "for j in 0..m:\n"
            "  for i in 0..n:\n"
            "    y[j, i] = x[i, j]\n");
  expect_same(transposed(), "interchange(i, j)", squares);
}

TEST(Schedule, RefusesAnInterchangeWithAPairOfIterations) {
  std::string text = refusal(skewed(), "interchange(i, j)");
  EXPECT_HAS(text, "cannot interchange 'i' and 'j': x[i, j] is written at schedule_test.cpp:");
  EXPECT_HAS(text, " for (i = 1, j = 1) and read as x[i - 1, j + 1] at schedule_test.cpp:");
  EXPECT_HAS(text, " for (i = 2, j = 0), with ");
}

TEST(Schedule, InterchangesATriangle) {
  std::string text = after(triangle(), "interchange(i, j)");
  EXPECT_EQ(text,
            "for j in 0..n:\n"
            "  for i in j..n:\n"
            "    y[i, j] = 2*x[j, i]\n");
  expect_same(triangle(), "interchange(i, j)", {{{"n", 6}}, {{"n", 1}}, {{"n", 0}}});
  expect_same(triangle(), "tile(i, j, 2, 3)", {{{"n", 7}}, {{"n", 1}}, {{"n", 0}}});
  expect_same(triangle(), "reverse(j); interchange(i, j)", {{{"n", 6}}});
}

TEST(Schedule, SumsCommute) {
  ProgramBuilder p("matmul");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n}), b = p.input<float>("b", {n, n});
  auto c = p.inout<float>("c", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n))
      for (auto k : p.loop("k", 0, n)) c(i, j) += a(i, k) * b(k, j);
  Program program = p.build();
  expect_same(program, "reorder(k, j, i)", {{{"n", 5}}});
  expect_same(program, "tile(i, j, k, 2, 2, 2); reverse(k)", {{{"n", 5}}});
  LoweredProgram moved = scheduled(program, Schedule::parse("reverse(k)"), SumMode::Serial);
  ASSERT_EQ(moved.report.remarks.size(), 1u);
  EXPECT_HAS(moved.report.remarks[0].text, "reverse(k) changes the order of sums into 'c'");
  EXPECT_TRUE(scheduled(program, Schedule::parse("interchange(i, j)"), SumMode::Serial).report.remarks.empty());
  std::string text = refusal(program, "parallelize(k)");
  EXPECT_HAS(text, "cannot run 'k' in parallel: c[i, j] is added to at");
  EXPECT_HAS(text, "Hint: leave a shared sum to the summation plan");
}

TEST(Schedule, AnAssignmentBetweenSumsIsNoSum) {
  ProgramBuilder p("reset");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n, n});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    for (auto j : p.loop("j", 0, n)) y(i) += x(i, j);
  }
  Program program = p.build();
  EXPECT_HAS(refusal<UsageError>(program, "interchange(i, j)"), "the loops are not perfectly nested");
  EXPECT_EQ(after(program, "fission(i); interchange(i#2, j)"),
            "for i in 0..n:\n"
            "  y[i] = 0\n"
            "for j in 0..n:\n"
            "  for i in 0..n:\n"
            "    y[i] += x[i, j]\n");
  expect_same(program, "fission(i)", {{{"n", 4}}});
  expect_same(program, "unroll_and_jam(i, 2)", {{{"n", 5}}, {{"n", 1}}});
}

TEST(Schedule, Unrolls) {
  EXPECT_EQ(after(recurrence(), "unroll(i, 2)"),
            "for i_unrolled in 0..max(n - 1, 0)//2:\n"
            "  x[2*i_unrolled + 1] = 0.5*x[2*i_unrolled]\n"
            "  x[2*i_unrolled + 2] = 0.5*x[2*i_unrolled + 1]\n"
            "for i in 2*(max(n - 1, 0)//2) + 1..n:\n"
            "  x[i] = 0.5*x[i - 1]\n");
  expect_same(recurrence(), "unroll(i, 3)", {{{"n", 9}}, {{"n", 2}}, {{"n", 0}}});
  EXPECT_HAS(refusal<UsageError>(recurrence(), "unroll(i)"), "the number of iterations is not a constant");
  EXPECT_HAS(refusal<UsageError>(recurrence(), "unroll(i, 1000)"), "more than 64 copies");
}

TEST(Schedule, UnrollsAConstantLoopAway) {
  ProgramBuilder p("taps");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n + 2});
  auto y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, 3)) y(i) += x(i + j);
  Program program = p.build();
  EXPECT_EQ(after(program, "unroll(j)"),
            "for i in 0..n:\n"
            "  y[i] += x[i]\n"
            "  y[i] += x[i + 1]\n"
            "  y[i] += x[i + 2]\n");
  expect_same(program, "unroll(j)", {{{"n", 4}}});
}

TEST(Schedule, UnrollsAndJams) {
  EXPECT_HAS(after(row_sums(), "unroll_and_jam(i, 2)"),
             "  for j in 0..m:\n"
             "    s += x[2*i_unrolled, j]\n");
  expect_same(row_sums(), "unroll_and_jam(i, 2)", squares);
  expect_same(row_sums(), "unroll_and_jam(i, 4)", squares);
}

TEST(Schedule, RefusesToJamAcrossADependence) {
  std::string text = refusal(skewed(), "unroll_and_jam(i, 2)");
  EXPECT_HAS(text, "cannot unroll and jam 'i': x[i, j] is written at");
}

TEST(Schedule, ParallelizesAndRefusesTo) {
  EXPECT_HAS(after(transposed(), "parallelize(j)"), "parallel for j in 0..m:");
  EXPECT_HAS(refusal(recurrence(), "parallelize(i)"), "x[i] is written at schedule_test.cpp:");
  EXPECT_HAS(refusal(recurrence(), "parallelize(i)"), "and read as x[i - 1] at");
}

TEST(Schedule, Vectorizes) {
  EXPECT_EQ(after(transposed(), "vectorize(j, 8)"),
            "for i in 0..n:\n"
            "  for j_vector in 0..m//8:\n"
            "    parallel for j in 8*j_vector..8*j_vector + 8:\n"
            "      y[j, i] = x[i, j]\n"
            "  for j in 8*(m//8)..m:\n"
            "    y[j, i] = x[i, j]\n");
  expect_same(transposed(), "vectorize(j, 3)", squares);
  EXPECT_HAS(refusal(recurrence(), "vectorize(i, 4)"), "cannot vectorize 'i': x[i] is written at");
  EXPECT_HAS(refusal<UsageError>(transposed(), "vectorize(i, 4)"), "there are loops in it");
}

TEST(Schedule, Reverses) {
  EXPECT_HAS(after(transposed(), "reverse(i)"), "for i in 0..n reversed:");
  EXPECT_HAS(refusal(recurrence(), "reverse(i)"), "cannot reverse 'i': x[i] is written at");
  EXPECT_HAS(refusal(recurrence(), "parallelize(i)"), "Hint: leave the step out, or give each iteration elements");
}

TEST(Schedule, WhatIsReadFromDataIsRefusedConservatively) {
  ProgramBuilder p("scatter");
  auto n = p.size("n"), m = p.size("m");
  auto at = p.input<int>("at", {n});
  auto x = p.input<float>("x", {n});
  auto y = p.inout<float>("y", {m});
  p.in_range(at, 0, m);
  for (auto i : p.loop("i", 0, n)) y(at(i)) = x(i);
  std::string text = refusal(p.build(), "reverse(i)");
  EXPECT_HAS(text, "y[at[i]] may be written at");
  EXPECT_HAS(text, "state what is known of them (injective, csr)");
}

TEST(Schedule, BoundsFromDataStayInTheirLoop) {
  ProgramBuilder p("csr");
  auto rows = p.size("V"), edges = p.size("E");
  auto ptr = p.input<int>("ptr", {rows + 1});
  auto w = p.input<float>("w", {edges});
  auto y = p.inout<float>("y", {edges});
  p.csr(ptr, edges);
  for (auto v : p.loop("v", 0, rows))
    for (auto e : p.loop("e", ptr(v), ptr(v + 1))) y(e) += w(e);
  Program program = p.build();
  EXPECT_HAS(refusal(program, "interchange(v, e)"), "the bounds of 'e' read data");
  expect_same(program, "split(e, 4); unroll(v, 2)", {{{"V", 5}, {"E", 17}}});
}

TEST(Schedule, ReadsTheLoopThatIsMeant) {
  Program program = two_loops(0);
  EXPECT_HAS(refusal<UsageError>(program, "reverse(q)"), "there is no loop 'q'. Hint: the loops are i, k, z");
  EXPECT_HAS(refusal<UsageError>(program, "split(i, 2); fission(i, 7)"), "it has 1 statement");
  EXPECT_HAS(refusal<UsageError>(row_sums(), "unroll(i, 2); reverse(j)"), "loops are called 'j'");
  EXPECT_HAS(refusal<UsageError>(row_sums(), "reverse(j@1)"), "there is no loop 'j@1'");
}

TEST(Schedule, IsTextAndBack) {
  Schedule s;
  s.tile({"i", LoopName("j").at_line(12)}, {32, 16}).fuse(LoopName("a").number(2), "b").expand("s", "i");
  EXPECT_EQ(s.str(), "tile(i, j@12, 32, 16); fuse(a#2, b); expand(s, i)");
  EXPECT_EQ(Schedule::parse(s.str()).str(), s.str());
  EXPECT_HAS(refusal<UsageError>(transposed(), "melt(i)"), "there is no step 'melt' in a schedule");
  EXPECT_HAS(refusal<UsageError>(transposed(), "split(i)"), "wrong number of arguments");
  EXPECT_THROW(Schedule::parse("split i 3"), UsageError);
  EXPECT_THROW(Schedule::parse("split(3, i)"), UsageError);
}

TEST(Schedule, BoundToAProgramIsCheckedAtOnce) {
  Schedule s(skewed());
  s.split("j", 4);
  EXPECT_THROW(s.interchange("i", "j_tile"), TransformError);
  EXPECT_EQ(s.str(), "split(j, 4)");  // what was refused is not in it
  EXPECT_HAS(s.program().str(), "j_tile");
  EXPECT_THROW(Schedule().program(), UsageError);
}

TEST(Schedule, AppliesToGradientsAlike) {
  ProgramBuilder p("conv1d");
  auto n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {n + k - 1}), w = p.input<float>("w", {k});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 0.0f;
    for (auto j : p.loop("j", 0, k)) y(i) += x(i + j) * w(j);
  }
  Gradient gradient = differentiate(p.build(), {.wrt = {"x"}});
  std::string steps = "tile(c0, j, 8, 2)";
  EXPECT_HAS(Schedule(gradient.backward).add(steps).program().str(), "for c0_tile in");
  expect_same_results(scheduled(gradient.backward, Schedule::parse(steps)), {{"n", 13}, {"k", 4}});
}

TEST(Schedule, OfAProgramSeesTheLoopsThatCompilingSees) {
  ProgramBuilder p("squares");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n}), y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = x(i) * x(i);
  const Gradient gradient = differentiate(p.build());
  const auto allowed = [](const std::function<void()>& f) {
    try {
      f();
    } catch (const UsageError&) {
      return false;
    }
    return true;
  };
  for (const char* loop : {"i", "z0"}) {  // the zeros of d_x are dropped before steps are done
    const bool at_once = allowed([&] { Schedule(gradient.backward).split(loop, 2); });
    const bool when_compiled = allowed([&] { scheduled(gradient.backward, Schedule().split(loop, 2)); });
    EXPECT_EQ(at_once, when_compiled) << loop;
  }
  EXPECT_NO_THROW(scheduled(gradient.backward, Schedule().split("i", 2)));
}

// What a schedule is checked against has the loops that its first step finds when the program is compiled: their
// estimates follow from the same sizes, and products are loops in both.
TEST(Schedule, SeesTheLoopsThatItsFirstStepFinds) {
  ProgramBuilder p("products");
  auto n = p.size("n"), m = p.size("m"), k = p.size("k");
  auto x = p.input<float>("x", {n + k - 1, k}), w = p.input<float>("w", {k, m}), v = p.input<float>("v", {k});
  auto y = p.output<float>("y", {n, m}), z = p.output<float>("z", {n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) {
      y(i, j) = 0.0f;
      for (auto l : p.loop("l", 0, k)) y(i, j) += x(i, l) * w(l, j);
    }
  for (auto i : p.loop("i", 0, n)) {
    z(i) = 0.0f;
    for (auto l : p.loop("l", 0, k)) z(i) += x(i + l, 0) * v(l);
  }
  const Gradient gradient = differentiate(p.build(), {.wrt = {"x", "w", "v"}});
  const auto loops = [](const ir::Program& program) {
    std::vector<std::string> names;
    ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
      if (const auto* loop = s.as<ir::For>()) names.push_back(loop->iterator.name);
    });
    return names;
  };
  std::set<std::vector<std::string>> different;
  for (const Program& part : {gradient.forward, gradient.backward}) {
    for (const Sizes& sizes :
         {Sizes{}, Sizes{{"n", 1000000}, {"m", 2}, {"k", 3}}, Sizes{{"n", 3}, {"m", 2}, {"k", 900000}}}) {
      const auto seen = loops(Schedule(part, sizes).program().ir());
      different.insert(seen);
      // As compiled for a CPU, with a step that changes nothing.
      const std::string any = fmt::format("split({}#1, 5)", seen.front());
      Report report;
      const LowerOptions options = {.bounded = Bounded::Writes,
                                    .schedule = Schedule::parse(any),
                                    .expected_sizes = sizes,
                                    .until = "apply_schedule"};
      auto compiled = loops(lower_for(part.ir(), options, report).program);
      ASSERT_EQ(compiled.front(), seen.front() + "_tile");
      compiled.erase(compiled.begin());
      EXPECT_EQ(compiled, seen) << part.name();
    }
  }
  EXPECT_GT(different.size(), 2U) << "sizes make no difference here";
}

// Elements are counted from where a tile begins: a branch leaves out the first ones.
TEST(Schedule, LocalsOfATileHaveRoomForIterationsThatABranchLeavesOut) {
  ProgramBuilder p("guarded");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.inout<float>("y", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m))
      p.when(i == 1, [&] {
        auto s = p.local<float>("s");
        s() = x(i, j) * 0.5f;
        y(i, j) += s() * s();
      });
  expect_same(p.build(), "tile(i, j, 3, 2); expand(s, i_tile)", {{{"n", 4}, {"m", 7}}, {{"n", 2}, {"m", 1}}});
}

}  // namespace
}  // namespace loopgrad::transforms
