#include "tests/unit/transforms/same_forward.h"

#include <loopgrad/autodiff.h>

namespace loopgrad::transforms {
namespace {

enum class Twist {
  None,
  Padded,               // the result is what is inside of a border
  PaddedByTheSteps,     // which each step sets together with the inside
  BordersAtOnce,        // of all levels, before the steps
  BordersOfMoreLevels,  // than there are steps
  ResultIsADerivative,  // tanh' is 1 - tanh^2: the gradient reads the last level
  NewLevelIsReadInStep,
  LastLevelIsReadAgain,
  TargetIsUsedBefore,
  TargetIsReadInSteps,
  SourceChangesInBetween,
  OnlySomeStepsStore,
};

Program recurrence(Twist twist) {
  const int pad = twist == Twist::Padded || twist == Twist::PaddedByTheSteps ? 1 : 0;
  const bool borders_at_once = twist == Twist::BordersAtOnce || twist == Twist::BordersOfMoreLevels;
  ProgramBuilder p("recurrence");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.inout<double>("x", {n + 2 * pad});
  auto w = p.inout<double>("w", {n});
  auto y = p.inout<double>("y", {n});
  auto v = p.local<double>("v", {T + 2, n + 2 * pad});
  const auto end = n + 2 * pad;
  for (auto i : p.loop("i", 0, end)) v(0, i) = x(i);
  if (twist == Twist::TargetIsUsedBefore)
    for (auto i : p.loop("i", 0, n)) w(i) += y(i);
  if (twist == Twist::Padded)
    for (auto t : p.loop("t", 0, T + 2))
      for (const Value& side : {Value(0), n + 1}) v(t, side) = 0.5;
  if (borders_at_once)
    for (auto t : p.loop("t", 0, twist == Twist::BordersOfMoreLevels ? T + 1 : T)) {
      v(t + 1, 0) = 0.25;
      v(t + 1, n - 1) = 0.5;
    }
  for (auto t : p.loop("t", 0, T)) {
    const bool inside = twist != Twist::PaddedByTheSteps;
    const auto sides = [&] {
      for (const Value& side : {Value(0), n - 1})
        for (auto i : p.loop("i", side, side + 1)) v(t + 1, i) = v(t, i) * v(t, i);
    };
    const bool sides_last = twist == Twist::ResultIsADerivative;
    if (inside && pad == 0 && !borders_at_once && !sides_last) sides();
    const auto step = [&] {
      for (auto i : p.loop("i", inside ? 1 : 0, inside ? end - 1 : end)) {
        if (!inside) v(t + 1, i) = 0.5 * v(t, i) * v(t, end - 1 - i);
        else if (twist == Twist::ResultIsADerivative) v(t + 1, i) = tanh(v(t, i) + 0.5 * v(t, i - 1));
        else v(t + 1, i) = 0.5 * v(t, i) * v(t, i - 1) + v(t, i + 1);
      }
    };
    if (twist == Twist::OnlySomeStepsStore)
      p.when(t % 2 == 0, step).otherwise([&] {
        for (auto i : p.loop("i", 1, end - 1)) v(t + 1, i) = v(t, i);
      });
    else step();
    if (sides_last) sides();  // so that v is on the tape when the adjoint of tanh looks for its result
    if (twist == Twist::NewLevelIsReadInStep)
      for (auto i : p.loop("i", 0, n)) w(i) += v(t + 1, i);
    if (twist == Twist::TargetIsReadInSteps)
      for (auto i : p.loop("i", 0, n)) w(i) += y(i);
  }
  if (twist == Twist::SourceChangesInBetween)
    for (auto i : p.loop("i", 0, n)) x(i) = 2 * w(i);
  for (auto i : p.loop("i", 0, n)) y(i) = v(T, i + pad);
  if (twist == Twist::LastLevelIsReadAgain)
    for (auto i : p.loop("i", 0, n)) w(i) += v(T, i);
  return p.build();
}

LoweredProgram lowered_forward(Twist twist) {
  return lowered(differentiate(recurrence(twist), {.wrt = {"x"}, .of = {"y"}}).forward);
}

bool stores_the_last_level(const LoweredProgram& l) {
  return std::any_of(l.report.storage.begin(), l.report.storage.end(),
                     [](const StorageDecision& d) { return d.place.find("last level in") != std::string::npos; });
}

void expect_same_for_all_sizes(const LoweredProgram& l) {
  for (const std::int64_t n : {1, 2, 3, 6})
    for (const std::int64_t T : {0, 1, 2, 5}) expect_same_forward(l, {{"n", n}, {"T", T}});
}

TEST(StoreLastLevel, TheLastStepStoresTheResult) {
  const LoweredProgram l = lowered_forward(Twist::None);
  EXPECT_TRUE(stores_the_last_level(l)) << l.text;
  EXPECT_NE(l.text.find("y[i] = 0.5*v_kept[T - 1, i]*v_kept[T - 1, i - 1] + v_kept[T - 1, i + 1]"), std::string::npos)
      << l.text;
  expect_same_for_all_sizes(l);
}

TEST(StoreLastLevel, WhatIsNotCopiedStaysWhereItIs) {
  const LoweredProgram l = lowered_forward(Twist::Padded);
  EXPECT_TRUE(stores_the_last_level(l)) << l.text;
  EXPECT_NE(l.text.find("y[i - 1] = 0.5*v_kept[T - 1, i]"), std::string::npos) << l.text;
  EXPECT_EQ(l.text.find("in 0..T + 2:"), std::string::npos) << "borders of levels that nobody reads:\n" << l.text;
  EXPECT_NE(l.text.find("v_kept[t, n + 1] = 0.5"), std::string::npos) << l.text;
  expect_same_for_all_sizes(l);
}

TEST(StoreLastLevel, NestsOverTheSameStepsEndEarlierToo) {
  const LoweredProgram l = lowered_forward(Twist::BordersAtOnce);
  EXPECT_TRUE(stores_the_last_level(l)) << l.text;
  EXPECT_NE(l.text.find("y[n - 1] = 0.5"), std::string::npos) << l.text;
  expect_same_for_all_sizes(l);
}

TEST(StoreLastLevel, NothingElseMayWantTheLastLevel) {
  for (const Twist twist :
       {Twist::PaddedByTheSteps, Twist::BordersOfMoreLevels, Twist::ResultIsADerivative, Twist::NewLevelIsReadInStep,
        Twist::LastLevelIsReadAgain, Twist::TargetIsUsedBefore, Twist::TargetIsReadInSteps}) {
    const LoweredProgram l = lowered_forward(twist);
    EXPECT_NE(l.text.find("v_kept"), std::string::npos) << static_cast<int>(twist) << "\n" << l.text;
    EXPECT_FALSE(stores_the_last_level(l)) << static_cast<int>(twist) << "\n" << l.text;
    expect_same_for_all_sizes(l);
  }
}

TEST(StoreLastLevel, UnderConditionsAndBeforeChangesOfOtherArrays) {
  for (const Twist twist : {Twist::SourceChangesInBetween, Twist::OnlySomeStepsStore}) {
    const LoweredProgram l = lowered_forward(twist);
    EXPECT_TRUE(stores_the_last_level(l)) << static_cast<int>(twist) << "\n" << l.text;
    expect_same_for_all_sizes(l);
  }
}

}  // namespace
}  // namespace loopgrad::transforms
