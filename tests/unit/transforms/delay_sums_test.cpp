#include "tests/unit/transforms/lowered.h"

namespace loopgrad::transforms {
namespace {

enum class Twist { None, TwoOperands, ReadsTooEarly, ChangesTheOperand, OtherElements, ReadsAnyLevel, CountsInBetween };

// v[t + 2] gets a part in the step that finishes v[t + 1], as in the adjoint of a wave equation.
Program waves(Twist twist) {
  ProgramBuilder p("waves");
  auto n = p.size("n"), T = p.size("T");
  auto x = p.input<double>("x", {n});
  auto w = p.inout<double>("w", {n});
  auto y = p.output<double>("y", {n});
  auto v = p.local<double>("v", {T + 2, n});
  for (auto t : p.loop("t", 0, T + 2))
    for (auto i : p.loop("i", 0, n)) v(t, i) = 0.0;
  for (auto i : p.loop("i", 0, n)) v(0, i) += x(i);
  for (auto t : p.loop("steps", 0, T)) {
    if (twist == Twist::CountsInBetween)
      for (auto i : p.loop("i", 0, n)) w(i) += v(t + 1, i);
    for (auto i : p.loop("i", twist == Twist::OtherElements ? 1 : 0, n)) v(t + 1, i) += 0.5 * v(t, n - 1 - i);
    for (auto i : p.loop("i", 0, n)) {
      auto seed = p.local<double>("seed");
      seed() = v(t, i);
      const bool two = twist == Twist::TwoOperands || twist == Twist::ChangesTheOperand;
      v(t + 2, i) += two ? seed() * w(i) : -seed();
    }
    if (twist == Twist::ReadsTooEarly)
      for (auto i : p.loop("i", 0, n)) w(i) += v(t + 2, i);
    if (twist == Twist::ChangesTheOperand)
      for (auto i : p.loop("i", 0, n)) w(i) = 0.5 * w(i);
    if (twist == Twist::ReadsAnyLevel)
      for (auto i : p.loop("i", 0, n)) w(i) += v(T - t, i);
  }
  for (auto i : p.loop("i", 0, n)) y(i) = v(T + 1, i) + 2.0 * v(T, i);
  return p.build();
}

bool waits(const LoweredProgram& l) {
  return std::any_of(l.report.remarks.begin(), l.report.remarks.end(), [](const Remark& remark) {
    return remark.text.find("waits for the next step") != std::string::npos;
  });
}

void expect_same_for_all_steps(const LoweredProgram& l) {
  for (const std::int64_t steps : {0, 1, 2, 5}) expect_same_results(l, {{"n", 4}, {"T", steps}});
  expect_same_results(l, {{"n", 0}, {"T", 2}});
}

TEST(DelaySums, ALevelIsSummedUpInOneStep) {
  const LoweredProgram l = lowered(waves(Twist::None));
  EXPECT_TRUE(waits(l)) << l.text;
  EXPECT_NE(l.text.find("= select(steps > 0, -v["), std::string::npos) << l.text;
  EXPECT_NE(l.text.find("local f64 v[2, n]"), std::string::npos) << l.text;
  expect_same_for_all_steps(l);
}

TEST(DelaySums, OperandsThatStayTheSameMayBeLoadedLater) {
  const LoweredProgram l = lowered(waves(Twist::TwoOperands));
  EXPECT_TRUE(waits(l)) << l.text;
  expect_same_for_all_steps(l);
}

TEST(DelaySums, NotPastAUseOfTheSumOrAChangeOfItsOperand) {
  for (const Twist twist : {Twist::ReadsTooEarly, Twist::ChangesTheOperand, Twist::OtherElements, Twist::ReadsAnyLevel,
                            Twist::CountsInBetween}) {
    const LoweredProgram l = lowered(waves(twist));
    EXPECT_FALSE(waits(l)) << static_cast<int>(twist) << "\n" << l.text;
    expect_same_for_all_steps(l);
  }
}

}  // namespace
}  // namespace loopgrad::transforms
