// What happens when isl's budget is spent, wherever that is: every analysis falls back to its conservative answer, so
// programs and all variants of their gradients are as right as with the whole budget. A mesh code of sixty statements
// spends it without help.
#include "dsl/poly/isl_bridge.h"
#include "tests/unit/transforms/passes.h"
#include "tools/fuzz/check.h"
#include "tools/fuzz/generator.h"
#include "tools/programs/programs.h"

#include <loopgrad/autodiff.h>

#include <gtest/gtest.h>

namespace loopgrad::fuzz {
namespace {

/// Lagrangian hydrodynamics in small: forces of elements on their corners, nodes that move, elements that follow, with
/// branches for walls, shocks and the equation of state.
Program mesh() {
  ProgramBuilder p("mesh");
  auto n = p.size("n"), m = p.size("m"), l = p.size("l"), steps = p.size("steps");
  const std::vector<Value> nodes = {l + 1, m + 1, n + 1}, elements = {l, m, n};
  std::vector<ArrayHandle> x, v, f;
  for (const char* axis : {"x", "y", "z"}) {
    x.push_back(p.inout<double>(axis, nodes));
    v.push_back(p.inout<double>(std::string("v") + axis, nodes));
    f.push_back(p.local<double>(std::string("f") + axis, nodes));
  }
  auto mass = p.input<double>("mass", nodes), dt = p.input<double>("dt", {});
  auto e = p.inout<double>("e", elements), pressure = p.inout<double>("pressure", elements);
  auto q = p.inout<double>("q", elements), volume = p.inout<double>("volume", elements);
  auto change = p.local<double>("change", elements), sound = p.local<double>("sound", elements);
  auto energy = p.output<double>("energy", {});
  const auto over = [&](const std::vector<Value>& extents, const std::function<void(Value, Value, Value)>& body) {
    for (auto k : p.loop("k", 0, extents[0]))
      for (auto j : p.loop("j", 0, extents[1]))
        for (auto i : p.loop("i", 0, extents[2])) body(k, j, i);
  };
  for (auto t : p.loop("t", 0, steps)) {
    over(nodes, [&](auto k, auto j, auto i) {
      for (auto& axis : f) axis(k, j, i) = 0.0;
    });
    over(elements, [&](auto k, auto j, auto i) {
      auto stress = p.scalar<double>("stress");
      stress = -pressure(k, j, i) - q(k, j, i);
      for (int corner = 0; corner < 8; ++corner) {
        const int a = corner / 4, b = corner / 2 % 2, c = corner % 2;
        f[0](k + a, j + b, i + c) += stress * (x[1](k + 1 - a, j + b, i) - x[2](k, j + 1 - b, i + c)) * 0.25;
        f[1](k + a, j + b, i + c) += stress * (x[2](k + a, j, i + 1 - c) - x[0](k + 1 - a, j, i + c)) * 0.25;
        f[2](k + a, j + b, i + c) += stress * (x[0](k, j + 1 - b, i + c) - x[1](k + a, j, i + 1 - c)) * 0.25;
      }
    });
    over(nodes, [&](auto k, auto j, auto i) {
      const std::vector<Value> at = {i, j, k};
      for (std::size_t axis = 0; axis < 3; ++axis) {
        auto a = p.scalar<double>("a");
        a = f[axis](k, j, i) / (2.0 + mass(k, j, i));
        p.when(at[axis] == 0, [&] { a = 0.0; });
        v[axis](k, j, i) = v[axis](k, j, i) + 0.125 * dt() * a;
        p.when(v[axis](k, j, i) * v[axis](k, j, i) < 1e-9, [&] { v[axis](k, j, i) = 0.0; });
        x[axis](k, j, i) = x[axis](k, j, i) + 0.125 * dt() * v[axis](k, j, i);
      }
    });
    over(elements, [&](auto k, auto j, auto i) {
      auto now = p.scalar<double>("now"), gradient = p.scalar<double>("gradient");
      now = 2.0 + 0.1 * (x[0](k, j, i + 1) - x[0](k, j, i)) * (x[1](k, j + 1, i) - x[1](k, j, i)) *
                      (x[2](k + 1, j, i) - x[2](k, j, i));
      change(k, j, i) = now - volume(k, j, i);
      gradient =
          v[0](k, j, i + 1) - v[0](k, j, i) + v[1](k, j + 1, i) - v[1](k, j, i) + v[2](k + 1, j, i) - v[2](k, j, i);
      p.when(gradient < 0.0, [&] { q(k, j, i) = 0.1 * gradient * gradient; }).otherwise([&] { q(k, j, i) = 0.0; });
      volume(k, j, i) = now;
    });
    over(elements, [&](auto k, auto j, auto i) {
      e(k, j, i) += -0.5 * change(k, j, i) * (pressure(k, j, i) + q(k, j, i));
      pressure(k, j, i) = 0.5 * e(k, j, i) / (4.0 + volume(k, j, i) * volume(k, j, i));
      p.when(pressure(k, j, i) < -0.4, [&] { pressure(k, j, i) = -0.4; });
      sound(k, j, i) = sqrt(1.0 + pressure(k, j, i) * pressure(k, j, i));
      e(k, j, i) = e(k, j, i) - 0.01 * sound(k, j, i);
    });
  }
  energy() = 0.0;
  over(elements, [&](auto k, auto j, auto i) { energy() += e(k, j, i) * e(k, j, i); });
  return p.build();
}

Case mesh_case() { return {3, mesh(), {{"n", 2}, {"m", 1}, {"l", 2}, {"steps", 2}}, {}, {}, {}, {}, {}}; }

void expect_right(const Case& c, const std::string& what) {
  const Outcome outcome = check(c);
  EXPECT_FALSE(outcome.failure) << what << ": [" << outcome.failure->stage << "] " << outcome.failure->message;
  EXPECT_EQ(outcome.refusal, "") << what;
  EXPECT_GT(outcome.largest_derivative, 1e-6) << what;
}

TEST(Budget, AMeshCodeOfSixtyStatements) { expect_right(mesh_case(), "mesh"); }

struct SpentBudgets : testing::TestWithParam<unsigned long> {};

TEST_P(SpentBudgets, LeaveResultsAndGradientsAsTheyAre) {
  const poly::BudgetCap cap(GetParam());
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Case c = generate(seed);
    const Outcome outcome = check(c);
    EXPECT_FALSE(outcome.failure) << "[" << outcome.failure->stage << "] " << outcome.failure->message << describe(c);
  }
}

TEST_P(SpentBudgets, LeaveAMeshCodeAsItIs) {
  const poly::BudgetCap cap(GetParam());
  expect_right(mesh_case(), std::to_string(GetParam()));
}

TEST_P(SpentBudgets, AreNoErrorWhereATangentIsLowered) {
  const poly::BudgetCap cap(GetParam());
  Report report;
  const Program program = tangent(mesh());
  for (const auto mode : {transforms::SumMode::Serial, transforms::SumMode::Restructured})
    EXPECT_NO_THROW(transforms::shared_passes(program.ir(), mode, report)) << GetParam();
}

TEST_P(SpentBudgets, LeaveTheBuiltInProgramsAsTheyAre) {
  for (const ProgramEntry& entry : programs::all()) {
    if (!entry.wrt.empty() || entry.fill) continue;  // with inputs that suit them only
    const poly::BudgetCap cap(GetParam());
    const Case c{1, entry.build(), entry.check_sizes, {}, {}, {}, {}, {}};
    const Outcome outcome = check(c);
    EXPECT_FALSE(outcome.failure) << entry.name << ": [" << outcome.failure->stage << "] " << outcome.failure->message;
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, SpentBudgets, testing::Values(1, 10, 30, 100, 300, 1'000, 3'000, 10'000, 100'000),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace loopgrad::fuzz
