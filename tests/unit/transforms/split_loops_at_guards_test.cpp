#include "transforms/loops/split_loops_at_guards.h"

#include "tests/unit/transforms/lowered.h"

namespace loopgrad::transforms {
namespace {

LoweredProgram split(const Program& program) {
  LoweredProgram result;
  result.before = program.ir();
  result.after = split_loops_at_guards(program.ir());
  ir::verify(result.after, "split_loops_at_guards");
  result.text = ir::print(result.after.body);
  return result;
}

TEST(SplitLoopsAtGuards, MiddlePartHasNoConditions) {
  ProgramBuilder p("shift");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n});
  auto x = p.inout<float>("x", {n});
  for (auto c : p.loop("c", 0, n)) {
    p.when(c >= 1, [&] { x(c) += a(c - 1); });
    p.when(c < n - 1, [&] { x(c) += a(c + 1); });
  }
  LoweredProgram l = split(p.build());
  EXPECT_NE(l.text.find("for c in min(1, n)..max(min(1, n), n - 1):\n"
                        "  x[c] += a[c - 1]\n"
                        "  x[c] += a[c + 1]\n"),
            std::string::npos)
      << l.text;
  for (std::int64_t n_value : {0, 1, 2, 3, 8}) expect_same_results(l, {{"n", n_value}});
}

TEST(SplitLoopsAtGuards, SingleBranchTightensBounds) {
  ProgramBuilder p("single");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.inout<float>("x", {n});
  for (auto c : p.loop("c", 0, n)) p.when(c >= 2 && c < m && m > 3, [&] { x(c) = 1.0f; });
  LoweredProgram l = split(p.build());
  EXPECT_EQ(l.text,
            "if m - 4 >= 0:\n"
            "  for c in 2..min(n, m):\n"
            "    x[c] = 1\n");
  for (std::int64_t m_value : {0, 3, 4, 7, 20}) expect_same_results(l, {{"n", 9}, {"m", m_value}});
}

TEST(SplitLoopsAtGuards, BordersTestTheirOwnIteratorOnly) {
  ProgramBuilder p("plane");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<float>("a", {n, m});
  auto x = p.inout<float>("x", {n, m});
  for (auto r : p.loop("r", 0, n))
    for (auto c : p.loop("c", 0, m)) {
      p.when(r >= 1, [&] { x(r, c) += a(r - 1, c); });
      p.when(r < n - 1 && c >= 1, [&] { x(r, c) += a(r + 1, c - 1); });
    }
  LoweredProgram l = split(p.build());
  EXPECT_NE(l.text.find("    for c in 0..min(1, m):\n"
                        "      x[r, c] += a[r - 1, c]\n"
                        "      if c >= 1:\n"),
            std::string::npos)
      << l.text;
  for (std::int64_t rows : {0, 1, 2, 4})
    for (std::int64_t columns : {0, 1, 2, 5}) expect_same_results(l, {{"n", rows}, {"m", columns}});
}

TEST(SplitLoopsAtGuards, SelectsCountAsGuards) {
  ProgramBuilder p("padded");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n});
  auto x = p.output<float>("x", {n});
  for (auto c : p.loop("c", 0, n)) x(c) = select(c > 0, a(c - 1), 0.0f) + select(c + 1 < n, a(c + 1), 0.0f);
  LoweredProgram l = split(p.build());
  EXPECT_NE(l.text.find("x[c] = a[c - 1] + a[c + 1]"), std::string::npos) << l.text;
  for (std::int64_t n_value : {0, 1, 2, 5}) expect_same_results(l, {{"n", n_value}});
}

TEST(SplitLoopsAtGuards, OrderIsKeptInLoopsThatRunBackwards) {
  ProgramBuilder p("recurrence");
  auto n = p.size("n");
  auto x = p.inout<float>("x", {n});
  for (auto c : p.loop("c", 0, n)) {
    p.when(c < n - 2, [&] { x(c) = x(c) * 0.5f + x(c + 1); });
    p.when(c >= 3, [&] { x(c) = x(c) + x(c - 1); });
  }
  Program program = p.build();
  ir::Program backward = program.ir();
  const ir::For& loop = *backward.body.as<ir::For>();
  backward.body = ir::for_loop(loop.iterator, loop.lower, loop.upper, loop.body, ir::LoopMode::Backward);
  LoweredProgram l{backward, split_loops_at_guards(backward), {}, ""};
  EXPECT_FALSE(l.after.body.same_as(backward.body));
  for (std::int64_t n_value : {0, 1, 4, 9}) expect_same_results(l, {{"n", n_value}});
}

TEST(SplitLoopsAtGuards, DataAndParityAreLeftAlone) {
  ProgramBuilder p("other");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n});
  auto x = p.inout<float>("x", {n});
  for (auto c : p.loop("c", 0, n)) {
    p.when(a(c) > 0.0f, [&] { x(c) = 1.0f; });
    p.when(c % 2 == 0, [&] { x(c) = 2.0f; });
  }
  Program program = p.build();
  EXPECT_TRUE(split(program).after.body.same_as(program.ir().body));
}

}  // namespace
}  // namespace loopgrad::transforms
