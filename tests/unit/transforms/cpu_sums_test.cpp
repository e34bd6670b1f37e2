// The passes that bring sums into registers on a CPU.
#include "tests/unit/transforms/passes.h"
#include "tests/unit/transforms/same_bits.h"
#include "transforms/loops/split_loops_at_guards.h"
#include "transforms/map/cpu/jam_sums.h"
#include "transforms/map/cpu/sink_sum_loops.h"
#include "transforms/storage/accumulate_in_registers.h"

namespace loopgrad::transforms {
namespace {

ir::Program with_parallel_loops(const Program& program, const std::vector<std::string>& names) {
  ir::Program result = program.ir();
  for (const std::string& name : names) result = with_parallel(result, name);
  return result;
}

bool contains(const ir::Program& program, const std::string& text) {
  return ir::print(program).find(text) != std::string::npos;
}

void expect_same_bits_for(const ir::Program& before, const ir::Program& after, std::vector<std::int64_t> sizes) {
  ir::verify(after, "test");
  for (const std::int64_t n : sizes)
    for (const std::int64_t m : {std::int64_t{1}, std::int64_t{5}})
      expect_same_bits(before, after, {{"n", n}, {"m", m}});
}

ir::Program run_alone(PassFunction pass, const ir::Program& program) {
  Report report;
  const LowerOptions options;
  PassContext context{options, report};
  return pass(program, context);
}
ir::Program sunk(const ir::Program& program) { return run_alone(sink_sum_loops, program); }
ir::Program jam(const ir::Program& program) { return run_alone(jam_sums, program); }

TEST(MapToCpu, WhereTheFirstFitTakesAllLanesCanSearchForIt) {
  ProgramBuilder p("first_fit");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m}), top = p.input<float>("top", {n});
  auto d = p.inout<float>("d", {n}), dx = p.inout<float>("dx", {n, m});
  for (auto i : p.loop("i", 0, n)) {
    for (auto j : p.loop("j", 1, m)) {
      p.when(x(i, j) > top(i), [&] {
        dx(i, j) += d(i);
        d(i) = 0.0f;
      });
    }
  }
  const ir::Program before = with_parallel_loops(p.build(), {"i"}), after = mapped_to_cpu(before);
  EXPECT_TRUE(contains(after, "match min= (lanes) select(")) << ir::print(after);
  expect_same_bits_for(before, after, {1, 2, 9});
}

/// score[i, o] = sum of a[i, d]*b[i + o - m, d], where that row exists.
Program scores() {
  ProgramBuilder p("scores");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m}), b = p.input<float>("b", {n, m});
  auto score = p.output<float>("score", {n, 2 * m + 1});
  auto last = p.output<float>("last", {n});
  for (auto i : p.loop("i", 0, n)) {
    for (auto o : p.loop("o", 0, 2 * m + 1)) {
      score(i, o) = 7.0f;
      p.when(i + o - m >= 0 && i + o - m < n, [&] {
        score(i, o) = 0.0f;
        for (auto d : p.loop("d", 0, m)) score(i, o) += a(i, d) * b(i + o - m, d);
      });
    }
    last(i) = score(i, 2 * m);
  }
  return p.build();
}

TEST(SplitOuterLoops, BordersKeepWhatIsOutsideOfTheBranch) {
  const ir::Program before = with_parallel_loops(scores(), {"i", "o"});
  const ir::Program after = split_outer_loops_at_guards(before);
  EXPECT_FALSE(contains(after, "if ")) << ir::print(after);
  EXPECT_TRUE(contains(after, "for o in max(0, m - i)..min(2*m + 1, n + m - i)")) << ir::print(after);
  expect_same_bits_for(before, after, {1, 2, 9});
}

TEST(SplitOuterLoops, StepsOfTheGuardAreDivided) {
  ProgramBuilder p("dilated");
  auto n = p.size("n"), m = p.size("m");
  auto b = p.input<float>("b", {n, m});
  auto y = p.inout<float>("y", {n, m});
  for (auto i : p.loop("i", 0, n)) {
    for (auto o : p.loop("o", 0, n)) {
      p.when(i - 3 * o + 4 >= 0 && 2 * o - i + 1 > 0, [&] {
        for (auto d : p.loop("d", 0, m)) y(i, d) += b(o, d);
      });
    }
  }
  const ir::Program before = with_parallel_loops(p.build(), {"i"});
  const ir::Program after = split_outer_loops_at_guards(before);
  EXPECT_FALSE(contains(after, "if ")) << ir::print(after);
  expect_same_bits_for(before, after, {1, 2, 3, 8, 13});
}

TEST(SplitOuterLoops, BackwardLoopsKeepTheirOrder) {
  ProgramBuilder p("ordered");
  auto n = p.size("n"), m = p.size("m");
  auto y = p.inout<float>("y", {n});
  auto carried = p.inout<float>("carried", {n});
  for (auto i : p.loop("i", 0, n)) {
    for (auto o : p.loop("o", 0, m)) {
      carried(i) = carried(i) * 0.7f + 0.1f;
      p.when(o >= i && o < n - i, [&] {
        for ([[maybe_unused]] auto d : p.loop("d", 0, m)) carried(i) = carried(i) * carried(i) + y(i);
      });
    }
  }
  const auto reversed = [](const ir::Stmt& s) -> std::optional<ir::Stmt> {
    const auto* loop = s.as<ir::For>();
    if (!loop || loop->iterator.name != "o") return std::nullopt;
    return ir::for_loop(loop->iterator, loop->lower, loop->upper, loop->body, ir::LoopMode::Backward);
  };
  ir::Program before = with_parallel_loops(p.build(), {"i"});
  before = ir::with_body(before, ir::rewrite(before.body, {}, reversed));
  const ir::Program after = split_outer_loops_at_guards(before);
  EXPECT_FALSE(contains(after, "if ")) << ir::print(after);
  expect_same_bits_for(before, after, {1, 2, 6});
}

TEST(SplitOuterLoops, TwoBranchesStay) {
  ProgramBuilder p("two");
  auto n = p.size("n"), m = p.size("m");
  auto y = p.inout<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    for (auto o : p.loop("o", 0, m)) {
      for (int side : {0, 1})
        p.when(o >= side, [&] {
          for ([[maybe_unused]] auto d : p.loop("d", 0, m)) y(i) += 0.3f;
        });
    }
  }
  const ir::Program before = with_parallel_loops(p.build(), {"i"});
  EXPECT_TRUE(split_outer_loops_at_guards(before).body.same_as(before.body));
}

TEST(JamSums, SumsOfNeighboursRunSideBySide) {
  const ir::Program before =
      accumulate_in_registers(split_outer_loops_at_guards(with_parallel_loops(scores(), {"i", "o"})));
  const ir::Program after = jam(before);
  EXPECT_TRUE(contains(after, "o_unrolled")) << ir::print(after);
  EXPECT_TRUE(contains(after, "score_sum_7 += a[i, d]*b[")) << ir::print(after);
  expect_same_bits_for(before, after, {1, 7, 20});
}

TEST(JamSums, LeavesAloneWhatThreadsShareOut) {
  ProgramBuilder p("rows");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m}), b = p.input<float>("b", {n, m});
  auto y = p.output<float>("y", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) {
      auto s = p.scalar<float>("s");
      s = 0;
      for (auto d : p.loop("d", 0, m)) s += a(i, d) * b(j, d);
      y(i, j) = s;
    }
  const Program program = p.build();
  const ir::Program shared = with_parallel_loops(program, {"i", "j"});
  EXPECT_TRUE(jam(shared).body.same_as(shared.body));
  const ir::Program sequential = with_parallel_loops(program, {"i"});
  EXPECT_TRUE(jam(sequential).body.same_as(sequential.body));
}

/// y[e] = sum of a[i, d]*b[e, d] for the entries e of row i, which may change what the row's entries are.
Program dots(bool changes) {
  ProgramBuilder p("dots");
  auto n = p.size("n"), m = p.size("m");
  auto first = p.input<std::int32_t>("first", {n + 1});
  auto count = p.inout<std::int32_t>("count", {n});
  auto a = p.input<float>("a", {n, m}), b = p.input<float>("b", {40 * m, m});
  auto y = p.inout<float>("y", {40 * m});
  p.csr(first, 40 * m);
  for (auto i : p.loop("i", 0, n)) {
    auto row = [&](const auto& e) {
      auto s = p.scalar<float>("s");
      s = 0;
      for (auto d : p.loop("d", 0, m)) s += a(i, d) * b(e, d);
      y(e) = s;
      if (changes) count(i) = 0;
    };
    if (changes) {
      for (auto e : p.loop("e", 0, count(i))) row(e);
    } else {
      for (auto e : p.loop("e", first(i), first(i + 1))) row(e);
    }
  }
  return p.build();
}

TEST(JamSums, EntriesOfARowRunSideBySide) {
  const ir::Program before = with_parallel_loops(dots(false), {"i", "e"});
  const ir::Program after = jam(before);
  EXPECT_TRUE(contains(after, "e_unrolled in 0..max(first[i + 1] - first[i], 0)//8")) << ir::print(after);
  expect_same_bits_for(before, after, {1, 2, 9});
}

TEST(JamSums, LoopsThatChangeTheirBoundsStay) {
  const ir::Program before = with_parallel_loops(dots(true), {"i", "e"});
  EXPECT_TRUE(jam(before).body.same_as(before.body));
}

TEST(JamSums, LeavesAloneSumsOverColumns) {
  ProgramBuilder p("columns");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {m, n, m});
  auto y = p.output<float>("y", {n, m});
  for (auto i : p.loop("i", 0, n)) {
    for (auto j : p.loop("j", 0, m)) {
      auto s = p.scalar<float>("s");
      s = 0;
      for (auto d : p.loop("d", 0, m)) s += a(d, i, j);
      y(i, j) = s;
    }
    y(i, 0) = 1.0f;
  }
  const ir::Program before = with_parallel_loops(p.build(), {"i", "j"});
  EXPECT_TRUE(jam(before).body.same_as(before.body));
}

/// y[i, d] += a[i, o]*x[o, d] for the rows o up to i, row by row.
Program rows(bool moving) {
  ProgramBuilder p("rows");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, n}), x = p.input<float>("x", {n, m});
  auto y = p.inout<float>("y", {n, n + m});
  for (auto i : p.loop("i", 0, n)) {
    for (auto o : p.loop("o", 0, n))
      p.when(o <= i, [&] {
        for (auto d : p.loop("d", 0, m)) y(i, moving ? d + o : d) += a(i, o) * x(o, d);
      });
    y(i, 0) += 1.0f;
  }
  return p.build();
}

TEST(SinkSumLoops, TheLoopOfTheSumGoesInside) {
  const ir::Program before = with_parallel_loops(rows(false), {"i", "d"});
  const ir::Program after = sunk(before);
  EXPECT_TRUE(contains(after,
                       "  parallel for d in 0..m:\n"
                       "    for o in 0..n:\n"
                       "      if o <= i:\n"
                       "        y[i, d] += a[i, o]*x[o, d]\n"))
      << ir::print(after);
  expect_same_bits_for(before, after, {1, 2, 11});
}

TEST(SinkSumLoops, SumsThatMoveStay) {
  const ir::Program before = with_parallel_loops(rows(true), {"i", "d"});
  EXPECT_TRUE(sunk(before).body.same_as(before.body));
}

TEST(SinkSumLoops, RowsOfSparseMatricesAreSummedInStrips) {
  ProgramBuilder p("sparse");
  auto n = p.size("n"), m = p.size("m");
  auto first = p.input<std::int32_t>("first", {n + 1});
  auto x = p.input<float>("x", {m, m});
  auto y = p.inout<float>("y", {n, m});
  p.csr(first, m);
  for (auto i : p.loop("i", 0, n))
    for (auto e : p.loop("e", first(i), first(i + 1)))
      for (auto d : p.loop("d", 0, m)) y(i, d) += x(e, d);
  const ir::Program before = with_parallel_loops(p.build(), {"i", "d"});
  const ir::Program after = sunk(before);
  EXPECT_TRUE(contains(after,
                       "  parallel for d in 0..m:\n"
                       "    for e in first[i]..first[i + 1]:\n"
                       "      y[i, d] += x[e, d]\n"))
      << ir::print(after);
  expect_same_bits_for(before, after, {1, 2, 11});
}

TEST(SinkSumLoops, BoundsThatTheRowsChangeStay) {
  ProgramBuilder p("changed");
  auto n = p.size("n"), m = p.size("m");
  auto last = p.inout<std::int32_t>("last", {n});
  auto y = p.inout<float>("y", {n, m});
  for (auto i : p.loop("i", 0, n))
    for ([[maybe_unused]] auto e : p.loop("e", 0, last(i)))
      for (auto d : p.loop("d", 0, m)) {
        y(i, d) += 1.0f;
        last(i) = 0;
      }
  const ir::Program before = with_parallel_loops(p.build(), {"i", "d"});
  EXPECT_TRUE(sunk(before).body.same_as(before.body));
}

TEST(SinkSumLoops, WhatOtherIterationsReadStays) {
  ProgramBuilder p("carried");
  auto n = p.size("n"), m = p.size("m");
  auto y = p.inout<float>("y", {n, m + 1}), z = p.inout<float>("z", {n, m + 1});
  for (auto i : p.loop("i", 0, n)) {
    for ([[maybe_unused]] auto t : p.loop("t", 0, m))
      for (auto d : p.loop("d", 0, m)) {
        y(i, d) += z(i, d + 1);
        z(i, d) = 0.5f;
      }
    y(i, 0) += 1.0f;
  }
  // Within one t these iterations of d do touch elements of others; the mark is wrong on purpose, as the pass must not
  // rely on it for different t.
  const ir::Program before = with_parallel_loops(p.build(), {"i", "d"});
  EXPECT_TRUE(sunk(before).body.same_as(before.body));
}

TEST(AccumulateInRegisters, StartsWithTheValueAssignedBefore) {
  ProgramBuilder p("start");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n}), z = p.output<float>("z", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = x(i, 0) * 2.0f;
    z(i) = 1.0f;
    for (auto j : p.loop("j", 1, m)) {
      y(i) += x(i, j);
      z(i) += x(i, j) * x(i, j);
    }
  }
  const ir::Program before = p.build().ir(), after = accumulate_in_registers(before);
  EXPECT_TRUE(contains(after, "y_sum = x[i, 0]*2\n")) << ir::print(after);
  EXPECT_TRUE(contains(after, "z_sum = 1\n")) << ir::print(after);
  EXPECT_FALSE(contains(after, "y[i] = x[i, 0]*2\n")) << ir::print(after);
  expect_same_bits_for(before, after, {1, 4});
}

TEST(AccumulateInRegisters, WhatIsReadInBetweenIsReadFromTheScalar) {
  ProgramBuilder p("kept");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n}), z = p.output<float>("z", {n}), v = p.inout<float>("v", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = v(i);
    z(i) = y(i);
    v(i) = 3.0f;  // changes what y starts from
    for (auto j : p.loop("j", 0, m)) y(i) += x(i, j);
  }
  const ir::Program before = p.build().ir(), after = accumulate_in_registers(before);
  EXPECT_TRUE(contains(after, "y_sum = v[i]\n")) << ir::print(after);
  EXPECT_TRUE(contains(after, "z[i] = y_sum\n")) << ir::print(after);
  EXPECT_FALSE(contains(after, "y[i] = v[i]\n")) << ir::print(after);
  expect_same_bits_for(before, after, {1, 4});
}

}  // namespace
}  // namespace loopgrad::transforms
