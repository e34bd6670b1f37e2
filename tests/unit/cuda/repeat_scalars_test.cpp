// What many blocks need of a single element: each test fails without the pass that it is about.
#include "transforms/storage/repeat_scalars.h"
#include "backends/cuda/emitter.h"
#include "dsl/symbolic/least_values.h"
#include "tests/unit/count_of.h"
#include "tests/unit/cuda/mapped.h"
#include "transforms/storage/forward_elements.h"

#include <loopgrad/loopgrad.h>

#include <fmt/format.h>

namespace loopgrad::transforms {
namespace {

/// What stands around a short sum into d[0] and a division of it, that all iterations of the last loop read.
enum class Around {
  Nothing,
  NestMayBeEmpty,     // before: nothing is sure to keep the old value
  NestSetsIt,         // before
  OldIsNotNeeded,     // and no nest before
  ReaderSetsIt,       // after
  ReaderSetsOperand,  // after
  ReaderSetsTerms,    // after
  BetweenSetsTerms,
  MayAlias,
};

LoweredProgram repeated(Around around) {
  ProgramBuilder p("repeat");
  auto n = p.size("n"), m = p.size("m");
  auto a = p.inout<double>("a", {n + 1});
  auto b = p.inout<double>("b", {n + 1});
  auto d = p.inout<double>("d", {n + 2});
  auto part = p.inout<double>("part", {m});
  if (around == Around::MayAlias) p.may_alias(b, a);
  if (around != Around::OldIsNotNeeded)
    for (auto i : p.loop("i", 0, around == Around::NestMayBeEmpty ? n : n + 1)) {
      b(i) = 2.0 * a(i);
      if (around == Around::NestSetsIt) d(i) = 3.0 * b(i);
    }
  else d(0) = a(n);
  for (auto k : p.loop("k", 0, m)) d(0) += part(k);
  d(0) = d(0) / (3.0 + a(0) * a(0));
  if (around == Around::BetweenSetsTerms)
    for (auto k : p.loop("l", 0, m)) part(k) = 1.0;
  for (auto i : p.loop("j", 0, n)) {
    if (around == Around::ReaderSetsIt) d(i) = d(i) + d(0) * b(i);
    else if (around == Around::ReaderSetsOperand) a(i) = a(i) + d(0) * b(i);
    else d(i + 2) += d(0) * b(i);
    if (around == Around::ReaderSetsTerms) p.when(i < m, [&] { part(i) = 0.0; });
  }
  LoweredProgram result;
  result.before = p.build().ir();
  result.after = repeat_scalars(shared_passes(result.before, SumMode::Restructured, result.report, gpu_machine()), 64);
  ir::verify(result.after, "repeat_scalars");
  result.text = ir::print(result.after.body);
  for (const std::int64_t size : {0, 1, 3, 70})
    if (size > 0 || around != Around::ReaderSetsIt)
      for (const std::int64_t terms : {0, 5}) expect_same_results(result, {{"n", size}, {"m", terms}});
  return result;
}

bool is_repeated(const LoweredProgram& result) { return result.text.find("d_own") != std::string::npos; }

TEST(RepeatScalars, EachIterationSumsUpForItself) {
  const LoweredProgram result = repeated(Around::Nothing);
  ASSERT_TRUE(is_repeated(result)) << result.text;
  EXPECT_NE(result.text.find("d_before[0] = d[0]"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("if !(0 < n && n < 64"), std::string::npos) << "else as before:\n" << result.text;
}

TEST(RepeatScalars, NothingIsKeptWhereTheOldValueIsNotNeeded) {
  const LoweredProgram result = repeated(Around::OldIsNotNeeded);
  EXPECT_TRUE(is_repeated(result)) << result.text;
  EXPECT_EQ(result.text.find("d_before"), std::string::npos) << result.text;
}

TEST(RepeatScalars, NotWhereAValueMayBeAnotherOne) {
  for (const Around around :
       {Around::NestMayBeEmpty, Around::NestSetsIt, Around::ReaderSetsIt, Around::ReaderSetsOperand,
        Around::ReaderSetsTerms, Around::BetweenSetsTerms, Around::MayAlias}) {
    const LoweredProgram result = repeated(around);
    EXPECT_FALSE(is_repeated(result)) << static_cast<int>(around) << "\n" << result.text;
  }
}

TEST(LeastValues, FollowIteratorsFromTheInnermost) {
  ProgramBuilder p("bounds");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.inout<double>("x", {n});
  std::vector<ir::Expr> found;
  for (auto j : p.loop("j", 0, n))
    for (auto i : p.loop("i", j + 1, n))
      for (auto k : p.loop("k", 0, min(j, m))) {
        const ir::Expr vj(Value(j).node()), vi(Value(i).node()), vk(Value(k).node());
        found = {vi - vj, vj - vk, vi - vk, vi + vk, vk - vi, ir::binary(ir::BinaryOp::Max, vk, ir::int_const(3))};
        x(k) += 1.0;
      }
  const ir::LeastValues least(p.build().ir());
  const std::vector<std::optional<std::int64_t>> expected = {1, 1, 2, 1, std::nullopt, 3};
  for (std::size_t e = 0; e < expected.size(); ++e) EXPECT_EQ(least.of(found[e]), expected[e]) << ir::print(found[e]);
  EXPECT_TRUE(least.are_apart({found[0], ir::int_const(0)}, {ir::int_const(0), ir::int_const(0)}));
  EXPECT_FALSE(least.are_apart({found[3]}, {ir::int_const(1)}));
}

/// One element is assigned, and then read by a loop.
enum class Loop { BesideIt, OverIt, AddsToIt };

Program assigned_then_read(Loop loop) {
  ProgramBuilder p("assigned");
  auto n = p.size("n");
  auto a = p.input<double>("a", {n});
  auto d = p.inout<double>("d", {n, n});
  for (auto i : p.loop("i", 0, n)) {
    d(i, 0) = d(i, 0) / (2.0 + a(i));
    for (auto k : p.loop("k", loop == Loop::BesideIt ? 1 : 0, n)) {
      if (loop == Loop::AddsToIt) d(i, 0) += d(i, 0) * a(k);
      else d(i, k) += d(i, 0) * a(k);
    }
  }
  return p.build();
}

TEST(ForwardElements, WhatALoopReadsStaysInAScalar) {
  const LoweredProgram result = passed(assigned_then_read(Loop::BesideIt), forward_elements);
  EXPECT_NE(result.text.find("+= d_now*a[k]"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("d[i, 0] = d_now"), std::string::npos) << result.text;
  for (const std::int64_t n : {1, 2, 6}) expect_same_results(result, {{"n", n}});
}

TEST(ForwardElements, NotWhereTheLoopMayChangeIt) {
  for (const Loop loop : {Loop::OverIt, Loop::AddsToIt}) {
    const LoweredProgram result = passed(assigned_then_read(loop), forward_elements);
    EXPECT_EQ(result.text.find("d_now"), std::string::npos) << result.text;
    expect_same_results(result, {{"n", 6}});
  }
}

/// Kernels of the program in which a block has a row.
std::string code_of(const ir::Program& program) {
  Report report;
  const ir::Program after = shared_passes(program, SumMode::Restructured, report, gpu_machine());
  const ir::Program mapped = mapped_to(small_gpu(1 << 20), after, 32);
  return backend::emit_cuda({mapped}).source();
}

/// Each row's first element is set from the second half, which is read, or, `overlap`, from all others.
std::string two_parts(bool overlap) {
  ProgramBuilder p("two_parts");
  auto n = p.size("n");
  auto d = p.inout<float>("d", {n, 2 * n});
  for (auto i : p.loop("i", 0, n)) {
    for (auto k : p.loop("k", 0, n)) d(i, k) = 2.0f * d(i, k);
    for (auto k : p.loop("l", n, 2 * n)) d(i, k) += overlap ? d(i, k - n) : d(i, k);
  }
  return code_of(p.build().ir());
}

/// In kernels, not in the functions before them.
std::size_t barriers_in(const std::string& code) {
  return count_of(code, "    __syncthreads") + count_of(code, "else __syncthreads");
}

TEST(Barriers, ThreadsDoNotWaitForElementsOfOthersThatTheyDoNotTouch) {
  EXPECT_EQ(barriers_in(two_parts(false)), 0u) << two_parts(false);
  EXPECT_GE(barriers_in(two_parts(true)), 1u) << two_parts(true);
}

TEST(RepeatScalars, AnElementBesideOthersOfItsArrayIsNotReadBeforeItIsSet) {
  ProgramBuilder p("beside");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {2});
  auto t = p.local<double>("t", {n});
  for (auto i : p.loop("i", 0, n)) t(i) = x(i) + 1.0;
  y(1) = 0.0;
  for (auto i : p.loop("i", 0, n)) y(1) += t(i);
  y(0) = 0.5;
  auto u = p.local<double>("u", {n});
  for (auto i : p.loop("i", 0, n)) u(i) = y(1) * x(i);
  for (auto i : p.loop("i", 0, n)) y(0) += u(i) * u(i);
  const LoweredProgram result = mapped_to_small_gpu(p.build());
  EXPECT_EQ(result.text.find("y_before"), std::string::npos) << result.text;
  expect_same_results(result, {{"n", 7}});
}

/// As gradients have them, where each adjoint lives around what computes it. It took twice the time with each.
TEST(RepeatScalars, LocalsWithinEachOtherAreLookedAtOnce) {
  constexpr int locals = 60;
  ir::Array x = ir::make_array("x", ScalarType::F32, {ir::int_const(1)}, ir::ArrayRole::InOut, {});
  ir::Program program;
  program.name = "nested";
  program.arrays = {x};
  for (int k = 0; k < locals; ++k) {
    const ir::Array t = ir::make_array(fmt::format("t{}", k), ScalarType::F32, {}, ir::ArrayRole::Local, {});
    program.body =
        ir::block({ir::allocate(t, ir::block({ir::assign(t, {}, ir::float_const(1, ScalarType::F32)), program.body})),
                   ir::assign(x, {ir::int_const(0)}, ir::float_const(k, ScalarType::F32))});
  }
  EXPECT_EQ(ir::print(repeat_scalars(program, 64)), ir::print(program));
}

}  // namespace
}  // namespace loopgrad::transforms
