// What is printed says all there is: every stage of every program is read back from its text as the same program.
#include "dsl/ir/printer.h"
#include "dsl/ir/structural_equal.h"
#include "tests/support/ir_text.h"
#include "tools/fuzz/generator.h"
#include "tools/programs/programs.h"
#include "transforms/pass/pass.h"

#include <loopgrad/autodiff.h>
#include <loopgrad/error.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace loopgrad {
namespace {

using transforms::SumMode;

/// The first line in which two texts differ, for a message that can be read.
std::string first_difference(const std::string& a, const std::string& b) {
  std::istringstream in_a(a), in_b(b);
  std::string line_a, line_b;
  for (int number = 1;; ++number) {
    const bool more_a(std::getline(in_a, line_a)), more_b(std::getline(in_b, line_b));
    if (!more_a && !more_b) return "no line differs";
    if (more_a != more_b || line_a != line_b) return fmt::format("line {}:\n  {}\n  {}", number, line_a, line_b);
  }
}

testing::AssertionResult is_read_back(const ir::Program& program) {
  const std::string text = ir::print(program);
  try {
    const ir::Program read = ir::parse_program(text);
    const std::string again = ir::print(read);
    if (again != text) return testing::AssertionFailure() << first_difference(text, again) << "\nin\n" << text;
    if (!ir::structurally_equal(program, read)) return testing::AssertionFailure() << "another program:\n" << text;
  } catch (const ir::TextError& error) {
    return testing::AssertionFailure() << error.what() << "\n" << text;
  }
  return testing::AssertionSuccess();
}

/// The program, and what each pass makes of it on its way to both targets.
void expect_stages_read_back(const ir::Program& program, SumMode mode, const std::string& what) {
  ASSERT_TRUE(is_read_back(program)) << what;
  for (const auto& machine : {transforms::cpu_machine(), transforms::gpu_machine()}) {
    const transforms::LowerOptions options{.mode = mode, .machine = machine, .bounded = transforms::Bounded::Accesses};
    Report report;
    transforms::PassContext context{options, report};
    ir::Program now = program;
    for (const transforms::Pass& pass : transforms::passes(options)) {
      const ir::Program next = transforms::run_pass(pass, now, context);
      if (next.body.same_as(now.body) && next.arrays == now.arrays) continue;
      now = next;
      ASSERT_TRUE(is_read_back(now)) << what << ", " << (machine.is_gpu() ? "GPU" : "CPU") << ", after " << pass.name;
    }
  }
}

void expect_gradients_read_back(const Program& program, const GradientOptions& options) {
  const std::pair<Variant, SumMode> variants[] = {{Variant::NaiveTape, SumMode::Serial},
                                                  {Variant::Atomic, SumMode::Atomic},
                                                  {Variant::Restructured, SumMode::Restructured}};
  for (const auto& [variant, mode] : variants) {
    GradientOptions of_variant = options;
    of_variant.variant = variant;
    const Gradient gradient = differentiate(program, of_variant);
    const std::string name = std::string(name_of(variant)) + ", ";
    if (gradient.sizing.ir().body) expect_stages_read_back(gradient.sizing.ir(), mode, name + "sizing");
    expect_stages_read_back(gradient.forward.ir(), mode, name + "forward");
    expect_stages_read_back(gradient.backward.ir(), mode, name + "backward");
  }
}

struct BuiltInPrograms : testing::TestWithParam<std::string> {};

TEST_P(BuiltInPrograms, AreReadBackAtEveryStage) {
  for (const ProgramEntry& entry : programs::all()) {
    if (entry.name != GetParam()) continue;
    const Program program = entry.build();
    expect_stages_read_back(program.ir(), SumMode::Restructured, "primal");
    ASSERT_TRUE(is_read_back(tangent(program, {.wrt = entry.wrt}).ir()));
    return expect_gradients_read_back(program, {.wrt = entry.wrt});
  }
  FAIL() << "there is no such program";
}

std::vector<std::string> names_of_programs() {
  std::vector<std::string> names;
  for (const ProgramEntry& entry : programs::all()) names.push_back(entry.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, BuiltInPrograms, testing::ValuesIn(names_of_programs()),
                         [](const auto& test) { return test.param; });

struct RandomProgramTexts : testing::TestWithParam<std::uint64_t> {};
constexpr std::uint64_t seeds_per_test = 100, lowered_every = 20;

TEST_P(RandomProgramTexts, AreReadBack) {
  std::uint64_t differentiated = 0;
  for (std::uint64_t k = 0; k < seeds_per_test; ++k) {
    const std::uint64_t seed = GetParam() * seeds_per_test + k;
    const Program program = fuzz::generate(seed).program;
    ASSERT_TRUE(is_read_back(program.ir())) << "seed " << seed;
    try {
      const Gradient gradient = differentiate(program);
      ASSERT_TRUE(is_read_back(gradient.forward.ir())) << "seed " << seed;
      ASSERT_TRUE(is_read_back(gradient.backward.ir())) << "seed " << seed;
      ++differentiated;
      if (seed % lowered_every) continue;
      expect_stages_read_back(gradient.backward.ir(), SumMode::Restructured, "seed " + std::to_string(seed));
    } catch (const DifferentiationError&) {
      continue;
    }
  }
  EXPECT_GE(differentiated, seeds_per_test / 2) << "hardly any gradient was read back";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgramTexts, testing::Range<std::uint64_t>(0, 4), [](const auto& test) {
  return fmt::format("{}_to_{}", test.param * seeds_per_test, (test.param + 1) * seeds_per_test - 1);
});

}  // namespace
}  // namespace loopgrad
