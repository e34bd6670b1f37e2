// Passes that save memory traffic: merge_copies, fold_arrays, unswitch_rows.
#include "dsl/ir/rewriter.h"
#include "tests/unit/transforms/lowered.h"
#include "transforms/loops/unswitch.h"

namespace loopgrad::transforms {
namespace {

enum class Twist { None, CopiesARowMore, KeepsMoreThanThat };

// u' = f(u) by way of `next`, which `kept` keeps.
Program kept_steps(Twist twist) {
  const bool one_row_more = twist == Twist::CopiesARowMore;
  ProgramBuilder p("steps");
  auto n = p.size("n"), m = p.size("m"), T = p.size("T");
  auto u = p.inout<double>("u", {n, m});
  auto kept = p.output<double>("kept", {T, n, m});
  auto next = p.local<double>("next", {n, m});
  if (one_row_more)
    for (auto i : p.loop("i", 0, n))
      for (auto j : p.loop("j", 0, m)) next(i, j) = u(i, j);
  if (twist == Twist::KeepsMoreThanThat)
    for (auto i : p.loop("i", 0, n)) kept(0, i, 0) = u(i, 0);
  for (auto t : p.loop("t", 0, T)) {
    for (auto i : p.loop("i", 1, n - 1))
      for (auto j : p.loop("j", 0, m)) next(i, j) = 0.5 * (u(i - 1, j) + u(i + 1, j));
    for (auto i : p.loop("i", one_row_more ? 0 : 1, n - 1))
      for (auto j : p.loop("j", 0, m)) {
        u(i, j) = next(i, j);
        kept(t, n - 1 - i, j) = u(i, j);
      }
  }
  return p.build();
}

constexpr auto no_local = "local f64 next";

TEST(MergeCopies, WhatIsOnlyCopiedIsStoredWhereItGoes) {
  const LoweredProgram l = lowered(kept_steps(Twist::None));
  EXPECT_EQ(l.text.find(no_local), std::string::npos) << l.text;
  EXPECT_NE(l.text.find("kept[t, n - 1 - i, j] = 0.5*"), std::string::npos) << l.text;
  for (const Sizes& sizes : {Sizes{{"n", 5}, {"m", 3}, {"T", 3}}, {{"n", 2}, {"m", 1}, {"T", 1}}})
    expect_same_results(l, sizes);
}

TEST(MergeCopies, ElementsThatAreNotWrittenInEachStepForbidIt) {
  const LoweredProgram l = lowered(kept_steps(Twist::CopiesARowMore));
  EXPECT_NE(l.text.find(no_local), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 5}, {"m", 3}, {"T", 3}});
}

TEST(MergeCopies, ATargetThatIsUsedOtherwiseForbidsIt) {
  const LoweredProgram l = lowered(kept_steps(Twist::KeepsMoreThanThat));
  EXPECT_NE(l.text.find(no_local), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 5}, {"m", 3}, {"T", 3}});
}

enum class Ending { WholeCopy, PartOfIt, ReadLater, TargetReadBefore };

// Steps in place on a local array, and then its result in another one.
Program steps_in_place(Ending ending) {
  ProgramBuilder p("in_place");
  auto n = p.size("n"), m = p.size("m"), T = p.size("T");
  auto x = p.input<double>("x", {n, m});
  auto y = p.inout<double>("y", {n, m});
  auto z = p.output<double>("z", {m});
  auto now = p.local<double>("now", {n, m});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) now(i, j) = x(i, j);
  for ([[maybe_unused]] auto t : p.loop("t", 0, T)) {
    for (auto i : p.loop("i", 1, n))
      for (auto j : p.loop("j", 0, m)) now(i, j) += 0.5 * now(i - 1, m - 1 - j);
    if (ending == Ending::TargetReadBefore)
      for (auto j : p.loop("j", 0, m)) now(0, j) += y(0, j);
  }
  for (auto i : p.loop("i", ending == Ending::PartOfIt ? 1 : 0, n))
    for (auto j : p.loop("j", 0, m)) y(i, j) = now(i, j);
  for (auto j : p.loop("j", 0, m)) z(j) = ending == Ending::ReadLater ? now(0, j) : x(0, j);
  return p.build();
}

TEST(MergeCopies, WhatIsCopiedAsAWholeInTheEndIsDoneThereFromTheBeginning) {
  for (const Ending ending : {Ending::WholeCopy, Ending::PartOfIt, Ending::ReadLater, Ending::TargetReadBefore}) {
    const LoweredProgram l = lowered(steps_in_place(ending));
    const bool merges = ending == Ending::WholeCopy || ending == Ending::ReadLater;
    EXPECT_EQ(l.text.find("local f64 now") == std::string::npos, merges) << l.text;
    for (const Sizes& sizes : {Sizes{{"n", 3}, {"m", 4}, {"T", 2}}, {{"n", 1}, {"m", 1}, {"T", 0}}})
      expect_same_results(l, sizes);
  }
}

// Two operands of a product that are copied to results, one of them as it is.
TEST(MergeCopies, ProductsNameTheArraysThatTheirMatricesAreIn) {
  ProgramBuilder p("product");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n, n});
  auto y = p.output<double>("y", {n, n}), z = p.output<double>("z", {n, n}), c = p.output<double>("c", {n, n});
  auto a = p.local<double>("a", {n, n}), b = p.local<double>("b", {n, n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) a(i, j) = 2.0 * x(i, j);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) b(i, j) = 3.0 * x(j, i);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) y(i, j) = a(i, j);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) z(n - 1 - i, j) = b(i, j);
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, n)) {
      c(i, j) = 0.0;
      for (auto k : p.loop("k", 0, n)) c(i, j) += a(i, k) * b(k, j);
    }
  const LoweredProgram l = lowered(p.build());
  EXPECT_NE(l.text.find("contraction c = y*b"), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 5}});
}

// v[t + 1] from v[t], of which only the last level is read.
Program levels(int reach, bool fills, bool reads_the_middle = false) {
  ProgramBuilder p("levels");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto v = p.local<double>("v", {T + reach, n});
  if (fills)
    for (auto t : p.loop("t", 0, T + reach)) v(t, 0) = 1.0;
  for (auto l : p.loop("l", 0, reach))
    for (auto i : p.loop("i", fills ? 1 : 0, n)) v(l, i) = x(i) + 0.5;
  for (auto t : p.loop("t", 0, T))
    for (auto i : p.loop("i", 1, n)) v(t + reach, i) = 0.5 * v(t, i - 1) + v(t + reach - 1, i);
  for (auto i : p.loop("i", 1, n)) y(i) = v(T + (reach - 1), i);
  if (reads_the_middle)
    for (auto i : p.loop("i", 1, n)) y(i) += v(T / 2, i);
  return p.build();
}

TEST(FoldArrays, OnlyThoseThatAStepUsesAreKept) {
  for (const int reach : {1, 2, 3}) {
    const LoweredProgram l = lowered(levels(reach, true));
    EXPECT_NE(l.text.find("local f64 v[" + std::to_string(reach + 1) + ", n]"), std::string::npos) << l.text;
    ASSERT_EQ(l.report.storage.size(), 1u);
    EXPECT_EQ(l.report.storage[0].array, "v");
    EXPECT_EQ(l.report.storage[0].decision, "folded");
    for (const std::int64_t steps : {0, 1, 2, 7}) expect_same_results(l, {{"n", 5}, {"T", steps}});
  }
}

enum class Levels {
  Two,
  NeighbourIsRead,
  BorderComesFirst,
  ReadTwice,
  ReadAfterwards,
  BackInTheStep,
  Twice,
  OneMore,
  OneMoreElsewhere
};

// v[t + 1] from v[t] and, element by element, v[t - 1].
Program waves(Levels what) {
  ProgramBuilder p("waves");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto w = p.output<double>("w", {n});
  auto v = p.local<double>("v", {T + 3, n});
  for (auto l : p.loop("l", 0, 2))
    for (auto i : p.loop("i", 0, n)) v(l, i) = x(i) + 0.5;
  for (auto i : p.loop("i", 0, n)) w(i) = 0.0;
  for (auto t : p.loop("t", 1, T + 1)) {
    auto border = [&] {
      v(t + 1, 0) = v(t, n - 1);
      v(t + 1, n - 1) = v(t, 0);
    };
    if (what == Levels::BorderComesFirst) border();
    for (auto i : p.loop("i", 1, n - 1)) {
      v(t + 1, i) = v(t, i - 1) + v(t, i + 1) - v(t - 1, what == Levels::NeighbourIsRead ? i - 1 : i);
      v(t + 1, i) += 0.25 * v(t, i);
      if (what == Levels::BackInTheStep) p.when(i > 1, [&] { w(i) += v(t + 1, i - 1); });
    }
    if (what == Levels::ReadTwice)
      for (auto i : p.loop("i", 0, n)) w(i) += v(t - 1, i);
    if (what == Levels::Twice)
      for (auto i : p.loop("i", 1, n - 1)) v(t + 1, i) = 0.5 * v(t - 1, i);
    if (what != Levels::BorderComesFirst) border();
  }
  const bool one_more = what == Levels::OneMore || what == Levels::OneMoreElsewhere;
  if (one_more)
    for (auto i : p.loop("i", 0, n)) v(T + 2, i) = 0.5 * v(T, what == Levels::OneMore ? i : n - 1 - i);
  for (auto i : p.loop("i", 0, n)) {
    if (one_more) y(i) = v(T + 1, i) - v(T + 2, i);
    else y(i) = v(T + 1, i) - v(what == Levels::ReadAfterwards ? T - 1 : T, i);
  }
  return p.build();
}

TEST(FoldArrays, AnElementTakesThePlaceOfTheOneThatItIsComputedFrom) {
  for (const Levels what : {Levels::Two, Levels::NeighbourIsRead, Levels::BorderComesFirst, Levels::ReadTwice,
                            Levels::BackInTheStep, Levels::Twice, Levels::OneMore, Levels::OneMoreElsewhere}) {
    const LoweredProgram l = lowered(waves(what));
    const bool two = what == Levels::Two || what == Levels::OneMore || what == Levels::BackInTheStep;
    const std::string places = two ? "2" : "3";
    EXPECT_NE(l.text.find("local f64 v[" + places + ", n]"), std::string::npos) << l.text;
    for (const std::int64_t steps : {0, 1, 2, 5}) expect_same_results(l, {{"n", 5}, {"T", steps}});
  }
  Report report;
  const ir::Program for_gpu = shared_passes(waves(Levels::Two).ir(), SumMode::Restructured, report, gpu_machine());
  EXPECT_NE(ir::print(for_gpu.body).find("local f64 v[3, n]"), std::string::npos) << ir::print(for_gpu.body);
  const LoweredProgram l = lowered(waves(Levels::ReadAfterwards));
  EXPECT_EQ(l.text.find("local f64 v[2, n]"), std::string::npos) << l.text;
  for (const std::int64_t steps : {1, 2, 5}) expect_same_results(l, {{"n", 5}, {"T", steps}});
}

TEST(FoldArrays, OneLevelIsEnoughForElementsOnTheirOwn) {
  ProgramBuilder p("decay");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  auto v = p.local<double>("v", {T + 1, n});
  for (auto i : p.loop("i", 0, n)) v(0, i) = x(i);
  for (auto t : p.loop("t", 0, T))
    for (auto i : p.loop("i", 0, n)) v(t + 1, i) = 0.5 * v(t, i) + x(n - 1 - i);
  for (auto i : p.loop("i", 0, n)) y(i) = v(T, i);
  const LoweredProgram l = lowered(p.build());
  EXPECT_EQ(l.text.find("v[T + 1, n]"), std::string::npos) << l.text;
  EXPECT_EQ(l.text.find("v[2, n]"), std::string::npos) << l.text;
  for (const std::int64_t steps : {0, 1, 2, 5}) expect_same_results(l, {{"n", 5}, {"T", steps}});
}

TEST(FoldArrays, GoingBackwards) {
  ProgramBuilder p("adjoint");
  auto n = p.size("n"), T = p.size("T");
  auto seed = p.input<double>("seed", {n});
  auto out = p.output<double>("out", {n});
  auto v = p.local<double>("v", {T + 1, n});
  for (auto t : p.loop("t", 0, T)) v(t, n - 1) = 0.25;
  for (auto i : p.loop("i", 0, n)) v(T, i) = seed(i);
  for (auto t : p.loop("backwards", 0, T)) {
    for (auto i : p.loop("i", 0, n - 1)) v(t, i) = 0.5 * v(t + 1, i + 1);
    for (auto i : p.loop("i", 0, n)) v(t, i) += 0.125 * v(t + 1, i);
  }
  for (auto i : p.loop("i", 0, n)) out(i) = v(0, i);
  LoweredProgram l;
  l.before = p.build().ir();
  l.before.body = ir::rewrite(l.before.body, {}, [](const ir::Stmt& s) -> std::optional<ir::Stmt> {
    auto* loop = s.as<ir::For>();
    if (!loop || loop->iterator.name != "backwards") return std::nullopt;
    return ir::for_loop(loop->iterator, loop->lower, loop->upper, loop->body, ir::LoopMode::Backward);
  });
  l.after = shared_passes(l.before, SumMode::Restructured, l.report);
  l.text = ir::print(l.after.body);
  EXPECT_NE(l.text.find("local f64 v[2, n]"), std::string::npos) << l.text;
  for (const std::int64_t steps : {0, 1, 2, 5}) expect_same_results(l, {{"n", 4}, {"T", steps}});
}

TEST(FoldArrays, ALevelThatIsReadLaterKeepsThemAll) {
  const LoweredProgram l = lowered(levels(1, true, true));
  EXPECT_NE(l.text.find("local f64 v[T + 1, n]"), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 5}, {"T", 4}});
}

TEST(FoldArrays, LoopsThatMayRunAtOnceKeepTheirLevels) {
  ProgramBuilder p("batches");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<double>("x", {T, n});
  auto y = p.output<double>("y", {T});
  auto v = p.local<double>("v", {T, n});
  for (auto t : p.loop("t", 0, T)) {
    for (auto i : p.loop("i", 0, n)) v(t, i) = 2.0 * x(t, i);
    y(t) = 0.0;
    for (auto i : p.loop("i", 0, n)) y(t) += v(t, n - 1 - i);
  }
  const LoweredProgram l = lowered(p.build());
  EXPECT_EQ(outer_parallel_loops(l.after.body), std::vector<std::string>{"t"}) << l.text;
  EXPECT_NE(l.text.find("v[T, n]"), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 3}, {"T", 4}});
}

TEST(Unswitch, AChoiceOfTheLoopOutsideIsMadeThere) {
  ProgramBuilder p("choice");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<double>("x", {n}), y = p.input<double>("y", {T, n});
  auto z = p.output<double>("z", {T, n});
  for (auto t : p.loop("t", 0, T))
    for (auto i : p.loop("i", 0, n)) z(t, i) = select(t == 0, x(i), y(t - 1, i));
  LoweredProgram l = lowered(p.build());
  l.after = unswitch_rows(l.after);
  l.text = ir::print(l.after.body);
  EXPECT_EQ(l.text.find("select"), std::string::npos) << l.text;
  EXPECT_NE(l.text.find("if t == 0"), std::string::npos) << l.text;
  expect_same_results(l, {{"n", 4}, {"T", 3}});
}

}  // namespace
}  // namespace loopgrad::transforms
