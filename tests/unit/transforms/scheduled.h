// Programs that a user's schedule has changed, for the tests of schedules.
#pragma once

#include "tests/unit/transforms/lowered.h"

#include <loopgrad/error.h>
#include <loopgrad/schedule.h>

namespace loopgrad::transforms {

/// The program with the steps done and nothing else decided by the user.
inline LoweredProgram scheduled(const Program& program, const Schedule& schedule,
                                SumMode mode = SumMode::Restructured) {
  LoweredProgram result;
  result.before = program.ir();
  result.after =
      lower_for(program.ir(), {.mode = mode, .schedule = schedule, .last = Part::Shared}, result.report).program;
  ir::verify(result.after, "lower");
  result.text = ir::print(result.after.body);
  return result;
}

/// What a step makes of the program as written, before anything is made parallel.
inline std::string after(const Program& program, const std::string& steps) {
  return ir::print(scheduled(program, Schedule::parse(steps), SumMode::Serial).after.body);
}

template <class E = TransformError>
std::string refusal(const Program& program, const std::string& steps) {
  try {
    scheduled(program, Schedule::parse(steps), SumMode::Serial);
  } catch (const E& e) {
    return e.what();
  }
  return "no error";
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

#define EXPECT_HAS(text, part) EXPECT_TRUE(holds(text, part)) << text

inline void expect_same(const Program& program, const std::string& steps, const std::vector<Sizes>& all) {
  for (SumMode mode : {SumMode::Serial, SumMode::Restructured}) {
    LoweredProgram l = scheduled(program, Schedule::parse(steps), mode);
    for (const Sizes& sizes : all) expect_same_results(l, sizes);
  }
}

/// Row sums with a local: the inner loop is not perfectly nested.
inline Program row_sums() {
  ProgramBuilder p("rows");
  auto n = p.size("n"), m = p.size("m");
  auto x = p.input<float>("x", {n, m});
  auto y = p.output<float>("y", {n});
  for (auto i : p.loop("i", 0, n)) {
    auto s = p.scalar<float>("s");
    s = 0.0f;
    for (auto j : p.loop("j", 0, m)) s += x(i, j);
    y(i) = s * s;
  }
  return p.build();
}

inline Program two_loops(int shift) {
  ProgramBuilder p("two");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n + 2});
  auto a = p.local<float>("a", {n + 2});
  auto y = p.output<float>("y", {n});
  for (auto z : p.loop("z", 0, n + 2)) a(z) = 0.0f;
  for (auto i : p.loop("i", 0, n)) a(i) = exp(x(i));
  for (auto k : p.loop("k", 0, n)) y(k) = 3.0f * a(k + shift);
  return p.build();
}

inline const std::vector<Sizes> squares = {
    {{"n", 7}, {"m", 5}}, {{"n", 8}, {"m", 8}}, {{"n", 1}, {"m", 3}}, {{"n", 0}, {"m", 0}}};

}  // namespace loopgrad::transforms
