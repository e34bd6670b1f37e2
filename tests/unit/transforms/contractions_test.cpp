// Which sums are products of matrices: by structure, never by name.
#include "dsl/ir/rewriter.h"
#include "tests/unit/transforms/lowered.h"

#include <loopgrad/error.h>
#include <loopgrad/schedule.h>

namespace loopgrad::transforms {
namespace {

std::vector<const ir::Contraction*> contractions_of(const ir::Program& program) {
  std::vector<const ir::Contraction*> found;
  ir::walk_stmts(program.body, [&](const ir::Stmt& s) {
    if (const auto* n = s.as<ir::Contraction>()) found.push_back(n);
  });
  return found;
}

std::string list(const std::vector<ir::Expr>& es) {
  std::string out;
  for (const ir::Expr& e : es) out += (out.empty() ? "" : ", ") + ir::print(e);
  return out;
}

/// Why the only product of the program stays loops.
std::string refusal(const LoweredProgram& l) {
  EXPECT_TRUE(contractions_of(l.after).empty()) << l.text;
  std::string reasons;
  for (const ContractionDecision& d : l.report.contractions) reasons += d.reason;
  return reasons;
}

TEST(Contractions, SmallOnesThatABandAddsUpOneByOneStayLoops) {
  ProgramBuilder p("band");
  auto n = p.size("n");
  auto s = p.input<float>("s", {4, 8, n, n}), q = p.input<float>("q", {4, 8, n, 32});
  auto k = p.inout<float>("k", {4, n, 32});
  for (auto [h, g, i] : p.loop({"h", 4}, {"g", 8}, {"i", n}))
    for (auto j : p.loop("j", max(0, i - 127), i + 1))
      for (auto c : p.loop("c", 32)) k(h, j, c) += s(h, g, i, j) * q(h, g, i, c);
  LoweredProgram l;
  l.after = shared_passes(p.build().ir(), SumMode::Restructured, l.report, gpu_machine());
  EXPECT_NE(refusal(l).find("too small to be worth a call each"), std::string::npos);
}

TEST(Contractions, ProductOfMatricesTakesItsFillAlong) {
  ProgramBuilder p("product");
  auto m = p.size("m"), n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {m, k}), y = p.input<float>("y", {k, n});
  auto z = p.output<float>("z", {m, n});
  for (auto r : p.loop("r", 0, m))
    for (auto s : p.loop("s", 0, n)) {
      z(r, s) = 0.0f;
      for (auto t : p.loop("t", 0, k)) z(r, s) += x(r, t) * y(t, s);
    }
  LoweredProgram l = lowered(p.build());
  const auto found = contractions_of(l.after);
  ASSERT_EQ(found.size(), 1u) << l.text;
  EXPECT_TRUE(found[0]->overwrites);
  EXPECT_EQ(list(found[0]->extents), "1, m, n, k");
  EXPECT_EQ(list(found[0]->c_place), "0, 0, n, 1");
  EXPECT_EQ(list(found[0]->a_place), "0, 0, k, 1");
  EXPECT_EQ(list(found[0]->b_place), "0, 0, n, 1");
  expect_same_results(l, {{"m", 3}, {"n", 4}, {"k", 5}});
  expect_same_results(l, {{"m", 3}, {"n", 4}, {"k", 0}});
}

/// The sum has one plan: the library's, with what the loops do where there is none.
TEST(Contractions, APlanSaysLibraryAndWhatTheLoopsDo) {
  ProgramBuilder p("product");
  auto m = p.size("m"), n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {m, k}), y = p.input<float>("y", {k, n});
  auto z = p.inout<float>("z", {m, n});
  for (auto t : p.loop("t", 0, k))
    for (auto r : p.loop("r", 0, m))
      for (auto s : p.loop("s", 0, n)) z(r, s) += x(r, t) * y(t, s);
  const LoweredProgram l = lowered(p.build());
  ASSERT_EQ(l.report.sums.size(), 1u);
  const SumDecision& sum = l.report.sums[0];
  EXPECT_EQ(sum.plan, "library");
  EXPECT_NE(sum.reason.find("m x n x k multiplications"), std::string::npos) << sum.reason;
  EXPECT_NE(sum.reason.find("; loops: gather"), std::string::npos) << sum.reason;
  ASSERT_GE(sum.candidates.size(), 2u);
  EXPECT_EQ(sum.candidates[0].plan, "library");
  EXPECT_EQ(sum.candidates[1].plan, "gather");
}

TEST(Contractions, TransposesOffsetsAndSigns) {
  ProgramBuilder p("transposed");
  auto m = p.size("m"), n = p.size("n"), k = p.size("k");
  auto x = p.input<double>("x", {k + 1, m + 2}), y = p.input<double>("y", {n, k});
  auto z = p.inout<double>("z", {n, m});
  for (auto t : p.loop("t", 1, k))
    for (auto r : p.loop("r", 0, m))
      for (auto s : p.loop("s", 0, n)) z(s, r) += -(x(t + 1, r + 2) * y(s, t));
  LoweredProgram l = lowered(p.build());
  const auto found = contractions_of(l.after);
  ASSERT_EQ(found.size(), 1u) << l.text;
  EXPECT_FALSE(found[0]->overwrites);
  EXPECT_EQ(found[0]->alpha, -1);
  EXPECT_EQ(list(found[0]->extents), "1, n, m, k - 1");
  EXPECT_EQ(found[0]->a->name, "y");
  EXPECT_EQ(list(found[0]->a_place), "1, 0, k, 1");
  EXPECT_EQ(list(found[0]->b_place), "2*(m + 2) + 2, 0, m + 2, 1");
  expect_same_results(l, {{"m", 3}, {"n", 4}, {"k", 5}});
}

TEST(Contractions, BatchesAndLoopsThatRunThroughMemoryAsOne) {
  ProgramBuilder p("attention");
  auto batch = p.size("batch"), heads = p.size("heads"), n = p.size("n"), d = p.size("d");
  auto q = p.input<float>("q", {batch, heads, n, d}), w = p.input<float>("w", {d, d});
  auto k = p.input<float>("k", {batch, heads, n, d});
  auto scores = p.inout<float>("scores", {batch, heads, n, n}), r = p.inout<float>("r", {batch, heads, n, d});
  for (auto b : p.loop("b", 0, batch))
    for (auto h : p.loop("h", 0, heads))
      for (auto i : p.loop("i", 0, n))
        for (auto j : p.loop("j", 0, n))
          for (auto e : p.loop("e", 0, d)) scores(b, h, i, j) += q(b, h, i, e) * k(b, h, j, e);
  for (auto b : p.loop("b", 0, batch))
    for (auto h : p.loop("h", 0, heads))
      for (auto i : p.loop("i", 0, n))
        for (auto j : p.loop("j", 0, d))
          for (auto e : p.loop("e", 0, d)) r(b, h, i, j) += q(b, h, i, e) * w(e, j);
  LoweredProgram l = lowered(p.build());
  const auto found = contractions_of(l.after);
  ASSERT_EQ(found.size(), 2u) << l.text;
  EXPECT_EQ(list(found[0]->extents), "batch*heads, n, n, d");
  EXPECT_EQ(list(found[0]->c_place), "0, n*n, n, 1");
  EXPECT_EQ(list(found[1]->extents), "1, batch*(heads*n), d, d");
  expect_same_results(l, {{"batch", 2}, {"heads", 3}, {"n", 4}, {"d", 2}});
}

TEST(Contractions, OtherLoopsStayOutside) {
  ProgramBuilder p("channels");
  auto n = p.size("n"), taps = p.size("taps"), in = p.size("in"), out = p.size("out");
  auto x = p.input<float>("x", {n + taps, in}), w = p.input<float>("w", {taps, in, out});
  auto y = p.inout<float>("y", {n, out});
  for (auto i : p.loop("i", 0, n))
    for (auto o : p.loop("o", 0, out))
      for (auto t : p.loop("t", 0, taps))
        for (auto c : p.loop("c", 0, in)) y(i, o) += x(i + t, c) * w(t, c, o);
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(l.text.rfind("for t in 0..taps:\n  contraction y += x*w (n x out x in):", 0), 0u) << l.text;
  expect_same_results(l, {{"n", 4}, {"taps", 3}, {"in", 2}, {"out", 3}});
}

TEST(Contractions, AreTakenOutOfLargerLoops) {
  ProgramBuilder p("layer");
  auto m = p.size("m"), n = p.size("n"), k = p.size("k");
  auto x = p.input<float>("x", {m, k}), w = p.input<float>("w", {k, n}), b = p.input<float>("b", {n});
  auto z = p.output<float>("z", {m, n}), norm = p.output<float>("norm", {m});
  for (auto i : p.loop("i", 0, m)) {
    for (auto j : p.loop("j", 0, n)) {
      z(i, j) = b(j);
      for (auto l : p.loop("l", 0, k)) z(i, j) += x(i, l) * w(l, j);
    }
    norm(i) = 0.0f;
    for (auto j : p.loop("j", 0, n)) norm(i) += z(i, j) * z(i, j);
  }
  LoweredProgram l = lowered(p.build());
  const auto found = contractions_of(l.after);
  ASSERT_EQ(found.size(), 1u) << l.text;
  EXPECT_FALSE(found[0]->overwrites);
  expect_same_results(l, {{"m", 3}, {"n", 4}, {"k", 5}});
}

/// Products by way of scalars: one that is summed into, and one that is a factor.
LoweredProgram with_scalars(bool streamed) {
  ProgramBuilder p("with_scalars");
  auto m = p.size("m"), n = p.size("n"), k = p.size("k");
  auto a = p.input<float>("a", {m, k}), b = p.input<float>("b", {k, n}), w = p.input<float>("w", {n});
  auto r = p.inout<float>("r", {m}), c = p.inout<float>("c", {m, n}), da = p.inout<float>("da", {m, k});
  for (auto i : p.loop("i", 0, m))
    for (auto j : p.loop("j", 0, n)) {
      auto s = p.scalar<float>("s");
      s = 0.0f;
      for (auto l : p.loop("l", 0, k)) s += a(i, l) * b(l, j);
      if (streamed) r(i) += s * s;
      else c(i, j) = s * w(j);
    }
  if (!streamed)
    for (auto i : p.loop("i", 0, m))
      for (auto j : p.loop("j", 0, n)) {
        auto s = p.scalar<float>("s");
        s = w(j) * (1.0f - c(i, j) * c(i, j));
        for (auto l : p.loop("l", 0, k)) da(i, l) += s * b(l, j);
      }
  return lowered(p.build());
}

TEST(Contractions, ScalarsAreKeptWhereAnArrayIsAsLarge) {
  const LoweredProgram l = with_scalars(false);
  const auto found = contractions_of(l.after);
  ASSERT_EQ(found.size(), 2u) << l.text;
  EXPECT_TRUE(found[0]->overwrites) << l.text;
  expect_same_results(l, {{"m", 3}, {"n", 4}, {"k", 5}});
  expect_same_results(l, {{"m", 3}, {"n", 4}, {"k", 0}});
  // Otherwise they would need memory that the program does not have.
  EXPECT_TRUE(contractions_of(with_scalars(true).after).empty());
}

TEST(Contractions, OperandThatIsZeroUnderAConditionOfTheLoopsOutside) {
  ProgramBuilder p("steps");
  auto steps = p.size("T"), n = p.size("n");
  auto h = p.input<float>("h", {steps, n, n}), w = p.input<float>("w", {n, n});
  auto y = p.inout<float>("y", {n, n});
  for (auto t : p.loop("t", 0, steps)) {
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n))
        for (auto l : p.loop("l", 0, n)) y(i, j) += select(t == 0, 0.0f, h(t - 1, i, l)) * w(l, j);
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n)) y(i, j) = y(i, j) * y(i, j);
  }
  LoweredProgram l = lowered(p.build());
  EXPECT_EQ(contractions_of(l.after).size(), 1u) << l.text;
  EXPECT_NE(l.text.find("else:\n    contraction"), std::string::npos) << l.text;
  expect_same_results(l, {{"T", 3}, {"n", 3}});
}

TEST(Contractions, FillCountsWhereItCoversTheResult) {
  for (const bool used : {false, true}) {
    ProgramBuilder p("fills");
    auto n = p.size("n");
    auto x = p.input<float>("x", {n, n}), y = p.input<float>("y", {n, n});
    auto z = p.inout<float>("z", {n, n}), v = p.inout<float>("v", {n});
    for (auto i : p.loop("i", 0, used ? n : n - 1))
      for (auto j : p.loop("j", 0, n)) z(i, j) = 0.0f;
    if (used)
      for (auto i : p.loop("i", 0, n)) v(i) = z(i, i);
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, n))
        for (auto l : p.loop("l", 0, n)) z(i, j) += x(i, l) * y(l, j);
    LoweredProgram l = lowered(p.build());
    ASSERT_EQ(contractions_of(l.after).size(), 1u) << l.text;
    EXPECT_EQ(contractions_of(l.after)[0]->overwrites, used)
        << l.text;  // used: the diagonal alone is set to zero before
    expect_same_results(l, {{"n", 4}});
  }
}

/// z[i, j] += x[i, l]*y[l, j] with one thing that is different.
enum class Twist { None, Triangle, Stride, InPlace, Branch, Half, Alias, Diagonal, Indirect, Used };

LoweredProgram twisted(Twist twist) {
  ProgramBuilder p("twisted");
  auto n = p.size("n");
  const auto is = [&](Twist t) { return twist == t; };
  auto x = p.input<float>("x", {n, 2 * n}), y = p.input<float>("y", {n, n});
  auto low = p.input<half>("low", {n, n});
  auto index = p.input<int>("index", {n});
  p.in_range(index, 0, n);
  auto z = p.inout<float>("z", {n, n});
  if (is(Twist::Alias)) p.may_alias(z, y);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", is(Twist::Triangle) ? Value(i) : Value(0), n))
      for (auto l : p.loop("l", 0, n)) {
        if (is(Twist::Stride)) z(i, j) += x(i, 2 * l) * y(l, j);
        else if (is(Twist::InPlace)) z(i, j) += z(j, l) * y(l, j);
        else if (is(Twist::Half)) z(i, j) += low(i, l) * y(l, j);
        else if (is(Twist::Diagonal)) z(i, j) += x(i, l) * y(i, j);
        else if (is(Twist::Indirect)) z(i, j) += x(index(i), l) * y(l, j);
        else if (is(Twist::Branch)) p.when(y(l, j) > 0.0f, [&] { z(i, j) += x(i, l) * y(l, j); });
        else z(i, j) += x(i, l) * y(l, j);
        if (is(Twist::Used)) z(i, j) *= 0.5f;
      }
  return lowered(p.build());
}

TEST(Contractions, OtherStructuresStayLoopsAndSayWhy) {
  EXPECT_EQ(contractions_of(twisted(Twist::None).after).size(), 1u);
  const std::pair<Twist, const char*> reasons[] = {{Twist::Triangle, "bounds of its loops"},
                                                   {Twist::Stride, "no three loops"},
                                                   {Twist::InPlace, "reads the array"},
                                                   {Twist::Branch, ""},
                                                   {Twist::Half, ""},
                                                   {Twist::Alias, "'z' may share memory"},
                                                   {Twist::Diagonal, "no three loops"},
                                                   {Twist::Indirect, "is read from data"},
                                                   {Twist::Used, "also uses its result"}};
  for (const auto& [twist, reason] : reasons) {
    const LoweredProgram l = twisted(twist);
    EXPECT_NE(refusal(l).find(reason), std::string::npos) << static_cast<int>(twist) << ": " << refusal(l);
    expect_same_results(l, {{"n", 4}});
  }
}

TEST(Contractions, OnlyTheRestructuredVariantHasThem) {
  ProgramBuilder p("product");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n, n}), y = p.input<float>("y", {n, n});
  auto z = p.inout<float>("z", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n))
      for (auto l : p.loop("l", 0, n)) z(i, j) += x(i, l) * y(l, j);
  const Program program = p.build();
  EXPECT_EQ(contractions_of(lowered(program).after).size(), 1u);
  EXPECT_TRUE(contractions_of(lowered(program, SumMode::Atomic).after).empty());
  EXPECT_TRUE(contractions_of(lowered(program, SumMode::Serial).after).empty());
}

TEST(Contractions, LoopsThatAreScheduledByHandStayLoops) {
  const LoweredProgram l = twisted(Twist::None);
  Report report;
  const ir::Program scheduled =
      lower_for(l.before, {.schedule = Schedule().interchange("i", "j"), .last = Part::Shared}, report).program;
  EXPECT_TRUE(contractions_of(scheduled).empty());
}

TEST(Contractions, ThatTheLoopsNoLongerMatchAreFoundByTheVerifier) {
  const LoweredProgram l = twisted(Twist::None);
  const ir::Contraction& n = *contractions_of(l.after)[0];
  const ir::Array other = ir::make_array("other", n.c->type, n.c->shape, ir::ArrayRole::Local, {});
  const ir::Stmt loops = ir::replace_arrays(n.loops, {{n.c, other}});
  const ir::Program stale = ir::with_body(l.after, ir::allocate(other, ir::with_loops(n, loops)));
  EXPECT_THROW(ir::verify(stale, "a pass"), InternalError);
  // Renaming all of it keeps them together.
  const ir::Stmt all = ir::replace_arrays(ir::with_loops(n, n.loops), {{n.c, other}});
  ir::verify(ir::with_body(l.after, ir::allocate(other, all)), "a pass");
}

}  // namespace
}  // namespace loopgrad::transforms
