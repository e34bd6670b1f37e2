#include "tests/unit/transforms/same_forward.h"

#include <loopgrad/autodiff.h>

namespace loopgrad::transforms {
namespace {

enum class Twist {
  None,
  InPlaceOfTheCaller,  // the first state is the caller's
  StateIsChanged,      // between u0 and the loop
  OriginIsChanged,     // the copy is of an array that the loop changes
  ReadAfterTheCopy,
  ReadLater,
  BorderChanges,     // in each step
  BorderIsNotSet,    // ever
  CopiedInPart,      // of what the step has computed
  CopiedAtOddSteps,  // only
};

// heat2d by another name: u' = f(u) inside a border, by way of `next`; the gradient needs each u.
Program steps_of(Twist twist) {
  ProgramBuilder p("heat");
  auto n = p.size("n"), m = p.size("m"), T = p.size("T");
  auto u0 = p.inout<double>("u0", {n, m});
  auto u = twist == Twist::InPlaceOfTheCaller ? p.inout<double>("u", {n, m}) : p.output<double>("u", {n, m});
  auto w = p.inout<double>("w", {m});
  auto next = p.local<double>("next", {n, m});
  const int inside = twist == Twist::BorderIsNotSet ? 1 : 0;
  if (twist != Twist::InPlaceOfTheCaller)
    for (auto i : p.loop("i", inside, n - inside))
      for (auto j : p.loop("j", inside, m - inside)) u(i, j) = u0(i, j);
  if (twist == Twist::StateIsChanged)
    for (auto j : p.loop("j", 0, m)) u(0, j) = 0.5 * w(j);
  for (auto t : p.loop("t", 0, T)) {
    for (auto i : p.loop("i", 1, n - 1))
      for (auto j : p.loop("j", 1, m - 1)) {
        if (twist == Twist::BorderIsNotSet) next(i, j) = u(i, j) + 0.1 * u(i, j) * u(i, j);
        else next(i, j) = u(i, j) + 0.1 * (u(i - 1, j) + u(i, j + 1) - u(i, j) * u(i, j));
      }
    const auto copy = [&] {
      for (auto i : p.loop("i", 1, n - (twist == Twist::CopiedInPart ? 2 : 1)))
        for (auto j : p.loop("j", 1, m - 1)) u(i, j) = next(i, j);
    };
    if (twist == Twist::CopiedAtOddSteps) p.when(t % 2 == 1, copy);
    else copy();
    if (twist == Twist::ReadAfterTheCopy)
      for (auto j : p.loop("j", 0, m)) w(j) += u(n - 1, j) + u(n / 2, j);
    if (twist == Twist::BorderChanges)
      for (auto j : p.loop("j", 0, m)) u(0, j) = 0.5 * u(0, j);
    if (twist == Twist::OriginIsChanged)
      for (auto j : p.loop("j", 0, m)) u0(0, j) = 0.5 * w(j);
  }
  if (twist == Twist::ReadLater)
    for (auto j : p.loop("j", 0, m)) w(j) += u(n - 1, j) + u(n / 2, j);
  return p.build();
}

LoweredProgram lowered_forward(Twist twist) {
  const char* first = twist == Twist::InPlaceOfTheCaller ? "u" : "u0";
  return lowered(differentiate(steps_of(twist), {.wrt = {first}, .of = {"u"}}).forward);
}

bool reads_levels(const LoweredProgram& l) {
  return std::any_of(l.report.storage.begin(), l.report.storage.end(),
                     [](const StorageDecision& d) { return d.place.find("levels of") != std::string::npos; });
}

void expect_same_for_all_sizes(const LoweredProgram& l, std::int64_t least = 1) {
  for (const std::int64_t n : {least, std::int64_t{2}, std::int64_t{3}, std::int64_t{6}})
    for (const std::int64_t m : {0, 1, 2, 5})
      for (const std::int64_t T : {0, 1, 2, 4}) {
        expect_same_forward(l, {{"n", n}, {"m", m}, {"T", T}});
      }
}

TEST(ReadLevels, StatesOnTheTapeAreNotCopiedBack) {
  const LoweredProgram l = lowered_forward(Twist::None);
  EXPECT_TRUE(reads_levels(l)) << l.text;
  EXPECT_NE(l.text.find("select(t > 0, u_tape[t - 1, i - 1, j], u0[i - 1, j])"), std::string::npos) << l.text;
  EXPECT_EQ(l.text.find("= u_tape[t, i, j]"), std::string::npos) << l.text;
  expect_same_for_all_sizes(l, 0);
  expect_same_for_all_sizes(l);
}

TEST(ReadLevels, TheArrayKeepsItsFirstStateWhereItIsTheOnlyOneThatHasIt) {
  for (const Twist twist : {Twist::InPlaceOfTheCaller, Twist::StateIsChanged, Twist::OriginIsChanged}) {
    const LoweredProgram l = lowered_forward(twist);
    EXPECT_TRUE(reads_levels(l)) << static_cast<int>(twist) << l.text;
    EXPECT_NE(l.text.find("select(t > 0, u_tape[t - 1, i - 1, j], u[i - 1, j])"), std::string::npos) << l.text;
    expect_same_for_all_sizes(l);
  }
}

TEST(ReadLevels, WhatComesAfterTheCopyReadsTheNewState) {
  const LoweredProgram l = lowered_forward(Twist::ReadAfterTheCopy);
  EXPECT_TRUE(reads_levels(l)) << l.text;
  EXPECT_NE(l.text.find("+= u_tape[t, n - 1, j] + u_tape[t, "), std::string::npos) << l.text;
  expect_same_for_all_sizes(l);
  const LoweredProgram later = lowered_forward(Twist::ReadLater);
  EXPECT_TRUE(reads_levels(later)) << later.text;
  expect_same_for_all_sizes(later);
}

TEST(ReadLevels, NotWhereALevelIsNotTheWholeState) {
  for (const Twist twist :
       {Twist::BorderChanges, Twist::BorderIsNotSet, Twist::CopiedInPart, Twist::CopiedAtOddSteps}) {
    const LoweredProgram l = lowered_forward(twist);
    EXPECT_FALSE(reads_levels(l)) << static_cast<int>(twist) << "\n" << l.text;
    expect_same_for_all_sizes(l);
  }
}

}  // namespace
}  // namespace loopgrad::transforms
