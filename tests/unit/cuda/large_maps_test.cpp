// How programs are mapped that fill the device: each test fails without its pass, and what it makes computes the same
// in the checked interpreter. A few threads fill the device that these tests map to.
#include "tests/unit/count_of.h"
#include "tests/unit/cuda/mapped.h"
#include "transforms/map/gpu/hoist_parallel_loops.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

Program column_sums() {
  ProgramBuilder p("column_sums");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {n, m});
  auto s = p.output<double>("s", {m});
  for (auto j : p.loop("j", 0, m)) s(j) = 0.0;
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) s(j) += a(i, j);
  return p.build();
}

TEST(Lockstep, FourColumnsShareTheLoopOverTheRows) {
  const LoweredProgram result = mapped_to_small_gpu(column_sums());
  EXPECT_NE(result.text.find("local f64 s_part_now[4]"), std::string::npos) << result.text;
  const std::string code = cuda_of(result);
  EXPECT_NE(code.find("copy_four(a_wide_ + 0, &a_[i_ * m_ + j_start_])"), std::string::npos) << code;
  for (const std::int64_t m : {1, 4, 7, 70})
    for (const std::int64_t n : {0, 1, 5, 33}) expect_same_results(result, {{"n", n}, {"m", m}});
}

TEST(Lockstep, LoadsOfAllIterationsComeBeforeTheirStores) {
  ProgramBuilder p("steps");
  auto n = p.size("n"), steps = p.size("T");
  auto u = p.inout<double>("u", {steps + 1, n, n});
  for (auto t : p.loop("t", 0, steps))
    for (auto i : p.loop("i", 1, n - 1))
      for (auto j : p.loop("j", 1, n - 1)) u(t + 1, i, j) = u(t, i - 1, j) + u(t, i + 1, j) - u(t, i, j + 1);
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  const std::size_t value = result.text.find("u_new[i - i_start] = "), store = result.text.find("u[t + 1, i, j] = ");
  EXPECT_LT(value, store) << result.text;
  EXPECT_NE(store, std::string::npos) << result.text;
  for (const std::int64_t n_value : {2, 3, 6, 9}) expect_same_results(result, {{"n", n_value}, {"T", 2}});
}

TEST(ThreadKernels, FewThreadsWithMuchToDoTakeOneIterationEach) {
  for (const int statements : {4, 40}) {
    ProgramBuilder p("columns");
    auto n = p.size("n");
    auto a = p.input<float>("a", {n});
    auto b = p.output<float>("b", {n});
    for (auto i : p.loop("i", 0, n)) {
      auto s = p.scalar<float>("s", 0.5f);
      for (int k = 0; k < statements; ++k) s = s * a(i) + 0.25f;
      b(i) = s;
    }
    Report report;
    const ir::Program mapped = lower_for(p.build().ir(), {.machine = small_gpu(64)}, report).program;
    const std::string text = ir::print(mapped.body);
    EXPECT_NE(text.find("(chunk of 4)"), std::string::npos) << text;
    EXPECT_EQ(text.find("if n >= 64:") != std::string::npos, statements == 40) << text;
  }
}

TEST(Rows, ThatBlocksWouldHardlyShareAreOfAThreadEach) {
  for (const std::int64_t share : {2, 200}) {
    ProgramBuilder p("shares");
    auto n = p.size("n"), m = p.size("m");
    auto x = p.input<double>("x", {m});
    auto y = p.output<double>("y", {n});
    for (auto b : p.loop("b", 0, n)) {
      y(b) = 0.0;
      for (auto i : p.loop("i", b * share, min(b * share + share, m))) y(b) += sin(x(i));
    }
    LoweredProgram result;
    result.before = p.build().ir();
    result.after = lower_for(result.before, {.machine = small_gpu(64)}, result.report).program;
    const std::string text = ir::print(result.after.body);
    EXPECT_NE(text.find("threads for t in 0..threads"), std::string::npos) << text;
    EXPECT_EQ(text.find("if n >= 64 || n >= 8:") != std::string::npos, share == 2) << text;
    for (const std::int64_t n_value : {1, 7, 40}) expect_same_results(result, {{"n", n_value}, {"m", 77}});
  }
}

TEST(Lockstep, NotesOfIndicesStayAtomic) {
  ProgramBuilder p("look_up");
  auto n = p.size("n"), k = p.size("k");
  auto knot = p.input<double>("knot", {k}), x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto at = p.scalar<std::int64_t>("at");
    at = -1;
    for (auto q : p.loop("q", 0, k)) p.when(knot(q) <= x(i), [&] { at = q; });
    y(i) = knot(at);
  }
  const Program program = p.build();
  Report report;
  const ir::Program mapped =
      lower_for(program.ir(), {.machine = small_gpu(1), .bounded = Bounded::Accesses, .threads_per_block = 32}, report)
          .program;
  const std::string text = ir::print(mapped.body);
  EXPECT_NE(text.find("local i64 at[4]"), std::string::npos) << text;
  EXPECT_NE(text.find("indices[0] max= (atomic)"), std::string::npos) << text;
  EXPECT_EQ(text.find("indices_new"), std::string::npos)
      << "another thread's note may come between a load and a store\n"
      << text;
}

TEST(Lockstep, LoopsOfDifferentLengthsStayApart) {
  ProgramBuilder p("triangle");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n, n});
  auto s = p.output<double>("s", {n});
  for (auto j : p.loop("j", 0, n)) {
    s(j) = 0.0;
    for (auto i : p.loop("i", 0, j + 1)) s(j) += a(i, j);
  }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_EQ(result.text.find("_now[4]"), std::string::npos) << result.text;
  for (const std::int64_t n_value : {1, 6, 40}) expect_same_results(result, {{"n", n_value}});
}

TEST(NameConstants, TheHostDividesOnce) {
  const LoweredProgram result = mapped_to_small_gpu(column_sums());
  EXPECT_NE(result.text.find("for known in"), std::string::npos) << result.text;
  const std::string code = cuda_of(result);
  EXPECT_EQ(code.find("floor_div"), std::string::npos) << code;
}

TEST(NameConstants, ADivisionThatNoThreadDoesIsNotDoneByTheHost) {
  ProgramBuilder p("remainders");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {m});
  for (auto i : p.loop("i", 0, m)) y(i) = x((m + 7) % n);
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_NE(result.text.find("for known in select(n == 0, 0, (m + 7)%n)"), std::string::npos) << result.text;
  expect_same_results(result, {{"n", 3}, {"m", 5}});
  expect_same_results(result, {{"n", 0}, {"m", 0}});
}

TEST(TreeSums, ManyPartialResultsAreCombinedInGroups) {
  const LoweredProgram result = mapped_to_small_gpu(column_sums());
  EXPECT_NE(result.text.find("s_part[group*32, z0] = s_group"), std::string::npos) << result.text;
  expect_same_results(result, {{"n", 300}, {"m", 3}});     // at once
  expect_same_results(result, {{"n", 150}, {"m", 3600}});  // in two groups
}

TEST(LongSums, ShortOnesShareAKernelWithWhatIsAroundThem) {
  ProgramBuilder p("norms");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<double>("x", {n}), z = p.input<double>("z", {m});
  auto norm = p.output<double>("norm", {});
  auto other = p.output<double>("other", {});
  norm() = 0.0;
  for (auto i : p.loop("i", 0, n)) norm() += x(i) * x(i);
  norm() = sqrt(norm());
  other() = norm();
  for (auto i : p.loop("i", 0, m)) other() += z(i);
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  const std::string code = cuda_of(result);
  // All in one kernel, or two for each sum and three for what is around them.
  EXPECT_NE(result.text.find("if n <= 4096 && m <= 4096:"), std::string::npos) << result.text;
  EXPECT_LE(count_of(code, "__global__"), 8u) << code;
  for (const std::int64_t n_value : {0, 1, 70, 5000})
    for (const std::int64_t m_value : {0, 3, 4097}) expect_same_results(result, {{"n", n_value}, {"m", m_value}});
}

TEST(HoistParallelLoops, AFillJoinsTheLoopThatSumsIntoIt) {
  ProgramBuilder p("rows_of_blocks");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {n, m, m});
  auto s = p.output<double>("s", {n, m});
  for (auto b : p.loop("b", 0, n)) {
    for (auto j : p.loop("j", 0, m)) s(b, j) = 0.0;
    for (auto i : p.loop("i", 0, m))
      for (auto j : p.loop("j", 0, m)) s(b, j) += a(b, i, j);
  }
  LoweredProgram result = lowered(p.build(), SumMode::Atomic);  // loops as they are
  Report report;
  const LowerOptions options;
  PassContext context{options, report};
  result.after = hoist_parallel_loops(result.after, context);
  result.text = ir::print(result.after.body);
  EXPECT_EQ(count_of(result.text, "parallel for"), 2u) << result.text;
  expect_same_results(result, {{"n", 2}, {"m", 5}});
}

TEST(SpreadLoops, SumsOverSeveralLoopsMeetOnce) {
  ProgramBuilder p("sums_of_images");
  auto n = p.size("n"), h = p.size("h"), w = p.size("w");
  auto a = p.input<double>("a", {n, h, w});
  auto s = p.output<double>("s", {n});
  for (auto i : p.loop("i", 0, n)) {
    s(i) = 0.0;
    for (auto y : p.loop("y", 0, h))
      for (auto x : p.loop("x", 0, w)) s(i) += a(i, y, x);
  }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  const std::size_t loop = result.text.find("for y in 0..h"), meet = result.text.find("s_all += (block) s_part");
  EXPECT_LT(loop, meet) << result.text;
  EXPECT_EQ(result.text.find("for y in 0..h", meet), std::string::npos) << result.text;
  for (const std::int64_t w_value : {0, 1, 40}) expect_same_results(result, {{"n", 3}, {"h", 4}, {"w", w_value}});
  expect_same_results(result, {{"n", 2}, {"h", 0}, {"w", 3}});
}

TEST(SpreadLoops, ASumBesideWhatItReadsIsShared) {
  ProgramBuilder p("column_of_a_factor");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n, n});
  for (auto j : p.loop("j", 0, n))
    for (auto i : p.loop("i", j + 1, n)) {
      for (auto k : p.loop("k", 0, j)) a(i, j) -= a(i, k) * a(j, k);
      a(i, j) /= 3.0;
    }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_NE(result.text.find("(block)"), std::string::npos) << result.text;
  for (const std::int64_t n_value : {1, 2, 9}) expect_same_results(result, {{"n", n_value}});
}

TEST(SpreadLoops, AScalarOfAllBlocksIsLeftAloneByBlocksThatAddNothing) {
  ProgramBuilder p("one_block_adds");
  auto n = p.size("n");
  auto a = p.input<double>("a", {2, n});
  auto s = p.inout<double>("s", {});
  for (auto i : p.loop("i", 0, 2))
    for (auto j : p.loop("j", 0, n)) p.when(i + 1 >= 2, [&] { s() += a(i, j); });
  // Only one iteration of the outer loop adds, which makes it parallel.
  LoweredProgram result = lowered(p.build(), SumMode::Atomic);
  result.after = mapped_to(small_gpu(4), result.after, 32);
  for (const std::int64_t n_value : {0, 1, 5}) expect_same_results(result, {{"n", n_value}});
}

TEST(SpreadLoops, AScalarWithoutAValueIsLeftAloneByBlocksThatAddNothing) {
  ProgramBuilder p("some_blocks_add");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {n, m});
  auto y = p.inout<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.local<double>("s");
    p.when(i != 1, [&] { s() = 0.5; });
    for (auto j : p.loop("j", 0, m)) p.when(i != 1, [&] { s() += a(i, j); });
    p.when(i != 1, [&] { y(i) = s(); });
  }
  LoweredProgram result = lowered(p.build());
  result.after = mapped_to(small_gpu(4), result.after, 32);
  for (const std::int64_t size : {0, 1, 3}) expect_same_results(result, {{"n", size}, {"m", 5}});
}

TEST(SpreadLoops, ATeamOfOneThreadKnowsItsIterator) {
  ProgramBuilder p("one_thread");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto total = p.output<double>("total", {});
  for (auto i : p.loop("i", 0, n)) {
    total() = x(i);
    p.when(total() > 0.0, [&] {
      for (auto j : p.loop("j", 0, 1)) {
        total() = 2.0 * x(j);
        y(j) = total() + cast<double>(j);
      }
      p.when(x(i) > 1.0, [&] { total() += sin(x(i)); }).otherwise([&] { total() += 1.0; });
    });
  }
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_EQ(result.text.find("threads for j"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("threads for t in 0..1:\n          total = 2*x[0]\n"), std::string::npos) << result.text;
}

}  // namespace
}  // namespace loopgrad::transforms
