// Steps of a sequential loop that are as small as those of a factorisation take few kernels.
#include "backends/cuda/emitter.h"
#include "tests/unit/count_of.h"
#include "tests/unit/transforms/lowered.h"
#include "transforms/map/gpu/fuse_nests.h"
#include "transforms/storage/join_scalars.h"

#include <loopgrad/loopgrad.h>

namespace loopgrad::transforms {
namespace {

LoweredProgram lowered_for_gpu(const ir::Program& program) {
  LoweredProgram result;
  result.before = program;
  result.after = shared_passes(program, SumMode::Restructured, result.report, gpu_machine());
  result.text = ir::print(result.after.body);
  return result;
}

LoweredProgram mapped(const ir::Program& program) {
  LoweredProgram result = lowered_for_gpu(program);
  result.after = mapped_to(small_gpu(1 << 20), result.after, 32);
  ir::verify(result.after, "map_to_gpu");
  result.text = ir::print(result.after.body);
  return result;
}

/// Every row below row j adds to it and to d[j, j]; then d[j, j] is divided, and the row takes its share of it.
/// `with_local`: what a row adds depends on a local that would have to be kept for all rows.
ir::Program steps(bool with_local = false) {
  ProgramBuilder p("steps");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n, n});
  auto d = p.inout<double>("d", {n, n});
  for (auto j : p.loop("j", 0, n)) {
    for (auto i : p.loop("i", j + 1, n)) {
      d(j, j) += d(i, j) * a(i, j);
      auto s = p.local<double>("s");
      if (with_local) {
        s() = 0.0;
        for (auto k : p.loop("m", 0, j)) s() += d(i, k) * a(i, k);
      }
      for (auto k : p.loop("k", 0, j)) {
        d(i, k) += a(j, k);
        if (with_local) d(j, k) += a(i, k) * s();
        else d(j, k) += a(i, k) * a(i, k);
      }
    }
    d(j, j) = d(j, j) / (3.0 + a(j, j));
    for (auto k : p.loop("l", 0, j)) d(j, k) -= d(j, j) * a(j, k);
  }
  return p.build().ir();
}

TEST(SmallSteps, PartialResultsCoverWhatIsAddedToOnly) {
  const LoweredProgram result = lowered_for_gpu(steps(true));
  EXPECT_NE(result.text.find("for z0 in 0..j"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("for z0 in 0..n"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("0 <= j"), std::string::npos) << "known to hold:\n" << result.text;
  EXPECT_NE(result.text.find(", n - j - 1)"), std::string::npos) << "no more blocks than rows:\n" << result.text;
  for (const std::int64_t n : {0, 1, 2, 7, 13}) expect_same_results(result, {{"n", n}});
}

TEST(SmallSteps, AreGatheredWithoutPartialResultsWhereNothingHasToBeKept) {
  const LoweredProgram result = lowered_for_gpu(steps());
  EXPECT_EQ(plan_of(result.report, "d[j, k]"), "gather") << result.text;
  EXPECT_EQ(plan_of(lowered_for_gpu(steps(true)).report, "d[j, k]"), "partials");
  EXPECT_EQ(plan_of(lowered(Program(std::make_shared<const ir::Program>(steps()))).report, "d[j, k]"), "partials")
      << "on a CPU nothing is launched";
}

TEST(SmallSteps, HaveNoKernelOfOneBlockForASingleElement) {
  const LoweredProgram result = mapped(steps());
  for (const std::int64_t n : {0, 1, 2, 7, 13}) expect_same_results(result, {{"n", n}});
  const std::size_t kept = result.text.find("d_before[0] = d[j, j]");
  const std::size_t divided = result.text.find("d_own = d_own/(", kept);
  const std::size_t shared = result.text.find("d[j, l] += -(d_own*a[j, l])", divided);
  EXPECT_NE(shared, std::string::npos) << result.text;
  EXPECT_LT(divided, shared) << result.text;
}

TEST(SmallSteps, MoreThanAFewPartialResultsAreCombinedInGroupsFirst) {
  const LoweredProgram result = lowered_for_gpu(steps(true));
  EXPECT_NE(result.text.find("*j > 131072:"), std::string::npos) << result.text;
}

enum class Factorisation { Lu, Ldl, TriangularSolve };

Program factorisation(Factorisation which) {
  ProgramBuilder p("factorisation");
  auto n = p.size("n");
  auto a = p.inout<double>("a", {n, n});
  auto x = p.inout<double>("x", {n});
  for (auto k : p.loop("k", 0, n)) {
    switch (which) {
      case Factorisation::Lu:
        for (auto i : p.loop("i", k + 1, n)) {
          a(i, k) = a(i, k) / (3.0 + a(k, k));
          for (auto j : p.loop("j", k + 1, n)) a(i, j) -= a(i, k) * a(k, j);
        }
        break;
      case Factorisation::Ldl:
        for (auto j : p.loop("j", 0, k)) x(k) += a(k, j) * a(k, j) * x(j);
        x(k) = 3.0 + x(k) * x(k);
        for (auto i : p.loop("i", k + 1, n)) {
          for (auto j : p.loop("m", 0, k)) a(i, k) -= a(i, j) * a(k, j) * x(j);
          a(i, k) /= x(k);
        }
        break;
      case Factorisation::TriangularSolve:
        for (auto j : p.loop("j", 0, k)) x(k) -= a(k, j) * x(j);
        x(k) = x(k) / (3.0 + a(k, k) * a(k, k));
        break;
    }
  }
  return p.build();
}

TEST(SmallSteps, OfFactorisationsAndTheirGradientsAreTheSame) {
  for (const auto which : {Factorisation::Lu, Factorisation::Ldl, Factorisation::TriangularSolve}) {
    const Gradient gradient = differentiate(factorisation(which), {.wrt = {"a", "x"}});
    for (const Program* program : {&gradient.forward, &gradient.backward}) {
      const LoweredProgram result = mapped(program->ir());
      for (const std::int64_t n : {0, 1, 2, 9}) expect_same_results(result, {{"n", n}});
    }
  }
}

/// A nest between two assignments to single elements.
enum class Between { OwnPlace, Neighbours, ReadsIt, AllOfThem };

LoweredProgram joined(Between between) {
  ProgramBuilder p("single_elements");
  auto n = p.size("n");
  auto x = p.inout<double>("x", {n + 2});
  auto y = p.inout<double>("y", {n + 2});
  x(n) = 2.0;
  for (auto i : p.loop("i", 0, n)) {
    switch (between) {
      case Between::OwnPlace: x(i) = 3.0 * y(i); break;
      case Between::Neighbours: x(i + 2) = 3.0 * y(i); break;
      case Between::ReadsIt: y(i) = x(n + 1) + y(i); break;
      case Between::AllOfThem: y(i + 1) = y(i + 1) * 0.5; break;
    }
  }
  x(n + 1) = x(n) * y(n);
  const LoweredProgram result = passed(p.build(), join_scalars);
  for (const std::int64_t size : {1, 2, 5}) expect_same_results(result, {{"n", size}});
  return result;
}

bool is_moved(const LoweredProgram& result) {
  return result.text.find("x[n + 1] = x[n]*y[n]") < result.text.find("for i");
}

TEST(JoinScalars, MoveOverNestsThatLeaveThemAlone) {
  const LoweredProgram result = joined(Between::OwnPlace);
  EXPECT_TRUE(is_moved(result)) << result.text;
}

TEST(JoinScalars, StayBehindWhatTheyNeedAndWhatNeedsThem) {
  for (const Between between : {Between::Neighbours, Between::ReadsIt, Between::AllOfThem}) {
    const LoweredProgram result = joined(between);
    EXPECT_FALSE(is_moved(result)) << result.text;
  }
}

enum class Update { OfTheSum, OfAnother, ReadsOthers };

LoweredProgram fused(Update update) {
  ProgramBuilder p("sum_and_update");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.input<double>("a", {n, m});
  auto s = p.inout<double>("s", {n});
  auto z = p.inout<double>("z", {n});
  for (auto i : p.loop("i", 0, n))
    for (auto j : p.loop("j", 0, m)) s(i) += a(i, j);
  for (auto i : p.loop("k", 0, n)) {
    switch (update) {
      case Update::OfTheSum: s(i) = 2.0 * s(i) + z(i); break;
      case Update::OfAnother: z(i) = 2.0 * s(i); break;
      case Update::ReadsOthers: s(i) = s(i) * s(0); break;
    }
  }
  const LoweredProgram result = passed(p.build(), fuse_nests);
  if (update != Update::ReadsOthers) expect_same_results(result, {{"n", 4}, {"m", 5}});
  return result;
}

TEST(FuseNests, TheUpdateOfASumJoinsIt) {
  EXPECT_EQ(outer_parallel_loops(fused(Update::OfTheSum).after.body).size(), 1u);
  EXPECT_EQ(outer_parallel_loops(fused(Update::OfAnother).after.body).size(), 2u);
  EXPECT_EQ(outer_parallel_loops(fused(Update::ReadsOthers).after.body).size(), 1u) << "the second loop is sequential";
}

TEST(Barriers, WhatThreadsExchangeIsNotRestricted) {
  // One thread sets an element that all then read: `__restrict__` would let the compiler keep the old value.
  ProgramBuilder p("exchange");
  auto n = p.size("n");
  auto a = p.input<float>("a", {n, n});
  auto d = p.inout<float>("d", {n, n});
  auto y = p.output<float>("y", {n, n});
  for (auto i : p.loop("i", 0, n)) {
    d(i, 0) = d(i, 0) / a(i, 0);
    for (auto k : p.loop("k", 1, n)) d(i, k) += d(i, 0) * a(i, k);
    for (auto k : p.loop("l", 0, n)) y(i, k) = a(i, k);
  }
  const std::string code = backend::emit_cuda({mapped(p.build().ir()).after}).source();
  ASSERT_NE(code.find("__syncthreads"), std::string::npos) << code;
  EXPECT_NE(code.find("float* d_,"), std::string::npos) << code;
  EXPECT_NE(code.find("float* __restrict__ y_"), std::string::npos) << code;
}

/// A sweep in order, whose rows of links add to elements that data choose: as entries of a CSR structure, or between
/// bounds of which nothing is known.
ir::Program sweep(bool is_csr) {
  ProgramBuilder p("sweep");
  auto n = p.size("n"), links = p.size("links");
  auto first = p.input<int>("first", {n + 1}), last = p.input<int>("last", {n + 1}), to = p.input<int>("to", {links});
  if (is_csr) p.csr(first, links);
  p.in_range(to, 0, n);
  auto x = p.input<double>("x", {n});
  auto y = p.inout<double>("y", {n});
  for (auto k : p.loop("k", n)) {
    auto own = p.let("own", y(k) * x(k));
    for (auto l : p.loop("l", first(k), is_csr ? Value(first(k + 1)) : last(k), {.at_most = {links}})) y(to(l)) += own;
  }
  return p.build().ir();
}

TEST(SmallSteps, RowsAreSortedInEachStepOnlyWhereTheyAreLong) {
  for (const bool is_csr : {false, true}) {
    LoweredProgram result = lowered_for_gpu(sweep(is_csr));
    Report report;
    const LowerOptions options{.machine = gpu_machine()};
    result.text = ir::print(lower_for(sweep(is_csr), options, report).program.body);
    EXPECT_EQ(count_of(result.text, "digit") > 0, is_csr) << result.text;
    EXPECT_EQ(result.text.find("if max(links//max(n, 1), 1) >= 512") != std::string::npos, is_csr) << result.text;
  }
}

std::string mapped_text(const Program& program, Report& report) {
  const LowerOptions options{.machine = gpu_machine()};
  return ir::print(lower_for(program.ir(), options, report).program.body);
}

/// Each row is one sum, which the next ones read: its terms are shared by the threads of a block that goes through all.
TEST(SmallSteps, SumsOfShortRowsInStepsAreOneKernel) {
  ProgramBuilder p("solve");
  auto n = p.size("n"), links = p.size("links");
  auto first = p.input<int>("first", {n + 1}), from = p.input<int>("from", {links});
  p.csr(first, links);
  p.in_range(from, 0, n);
  auto x = p.input<double>("x", {links});
  auto y = p.inout<double>("y", {n});
  for (auto k : p.loop("k", n)) {
    auto sum = p.scalar<double>("sum", 0.0);
    for (auto l : p.loop("l", first(k), first(k + 1))) sum += x(l) * y(from(l));
    y(k) = y(k) - sum;
  }
  Report report;
  const std::string text = mapped_text(p.build(), report);
  EXPECT_EQ(count_of(text, "grid for"), 1u) << text;
}

/// Launches pay where rows have much to do on average: data say how long each is, sizes how long all of them are.
TEST(SmallSteps, StepsOfShortRowsAreOneKernel) {
  ProgramBuilder p("marks");
  auto n = p.size("n"), links = p.size("links");
  auto first = p.input<int>("first", {n + 1});
  p.csr(first, links);
  auto x = p.input<double>("x", {links});
  auto y = p.inout<double>("y", {n + 1});
  auto z = p.output<double>("z", {links});
  for (auto k : p.loop("k", n)) {
    for (auto l : p.loop("l", first(k), first(k + 1))) z(l) = y(k) * x(l);
    y(k + 1) = 0.5 * z(first(k)) + y(k) * y(k + 1);
  }
  Report report;
  const std::string text = mapped_text(p.build(), report);
  EXPECT_NE(text.find("n <= 4096 || max(links//max(n, 1), 1) > 4096"), std::string::npos) << text;
}

/// Sums of which data decide whether a term takes part: an element of each iteration is there in any case, so that
/// threads may have sums of their own. One that a number chooses is not each iteration's.
TEST(SmallSteps, SumsUnderConditionsAreSharedWhereTheirElementIsTheIterationsOwn) {
  for (const bool is_own : {true, false}) {
    ProgramBuilder p("chosen");
    auto n = p.size("n"), few = p.size("few");
    auto x = p.input<double>("x", {few, n});
    auto y = p.inout<double>("y", {few}), z = p.inout<double>("z", {4});
    for (auto k : p.loop("k", few))
      for (auto i : p.loop("i", n)) {
        if (is_own) p.when(x(k, i) > 0.0, [&] { y(k) += x(k, i); });
        else p.when(k == 3 && x(k, i) > 0.0, [&] { z(2) += x(k, i); });
      }
    Report report;
    const LowerOptions options{.mode = SumMode::Atomic, .machine = gpu_machine()};
    const std::string text = ir::print(lower_for(p.build().ir(), options, report).program.body);
    EXPECT_EQ(text.find("(block)") != std::string::npos && text.find("(atomic)") == std::string::npos, is_own) << text;
  }
}

}  // namespace
}  // namespace loopgrad::transforms
