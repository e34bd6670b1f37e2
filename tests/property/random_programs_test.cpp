// Random loop programs: every variant of every gradient against forward mode, plain and lowered, interpreted and
// compiled. A failure prints the seed, the program and the smallest program that fails in the same way.
#include "tools/fuzz/check.h"
#include "tools/fuzz/generator.h"
#include "tools/fuzz/shrinker.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace loopgrad::fuzz {
namespace {

constexpr std::uint64_t kSeedsPerTest = 40;
constexpr std::uint64_t kTests = 8;
constexpr std::uint64_t kCompiledSeeds = 24;

std::string explain(const Case& c, const Failure& failure, const CheckOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto fails_alike = [&](const Case& candidate) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    const Outcome outcome = check(candidate, options);
    return outcome.failure && outcome.failure->stage == failure.stage;
  };
  const Case small = shrink(c, fails_alike);
  return "[" + failure.stage + "] " + failure.message + "\n" + describe(c) + "\nshrunk:\n" + describe(small);
}

struct RandomPrograms : testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomPrograms, GradientsAgreeWithForwardMode) {
  std::uint64_t refused = 0, empty = 0;
  std::string refusals;
  for (std::uint64_t i = 0; i < kSeedsPerTest; ++i) {
    const Case c = generate(GetParam() * kSeedsPerTest + i);
    const Outcome outcome = check(c);
    if (outcome.failure) {
      ADD_FAILURE() << explain(c, *outcome.failure, {});
      return;  // one is enough to read
    }
    if (!outcome.refusal.empty()) {
      ++refused;
      refusals += "seed " + std::to_string(c.seed) + ": " + outcome.refusal + "\n";
    }
    if (outcome.largest_derivative < 1e-6) ++empty;
  }
  EXPECT_LE(refused, kSeedsPerTest / 10) << refusals;
  EXPECT_LE(empty, kSeedsPerTest / 4) << "too many programs without a derivative: nothing was compared";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Range<std::uint64_t>(0, kTests), [](const auto& test) {
  return fmt::format("{}_to_{}", test.param * kSeedsPerTest, (test.param + 1) * kSeedsPerTest - 1);
});

struct CompiledPrograms : testing::TestWithParam<std::uint64_t> {};

TEST_P(CompiledPrograms, AgreeWithTheInterpreterForAnyNumberOfThreads) {
  const CheckOptions options{.openmp = true};
  const Case c = generate(1000 + GetParam(), {.double_only = true});
  const Outcome outcome = check(c, options);
  if (outcome.failure) ADD_FAILURE() << explain(c, *outcome.failure, options);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CompiledPrograms, testing::Range<std::uint64_t>(0, kCompiledSeeds),
                         [](const auto& test) { return std::to_string(1000 + test.param); });

// ---- the generator and the shrinker themselves ----

TEST(Generator, GivesTheSameProgramForTheSameSeed) {
  EXPECT_EQ(describe(generate(7)), describe(generate(7)));
  EXPECT_NE(describe(generate(7)), describe(generate(8)));
}

TEST(Generator, CoversTheLanguage) {
  std::string all;
  for (std::uint64_t seed = 0; seed < 200; ++seed) all += describe(generate(seed));
  for (const char* part :
       {"inout ",    " += ",      " *= ",  " min= ",      " max= ",    "if ",      "else:", " while ",
        "local f32", "local f64", "fact ", "csr pointer", "injective", "(at most", "%2",    "//2",
        "select(",   "exp(",      "pow(",  "ptr",         "idx",       "i32 count"})
    EXPECT_NE(all.find(part), std::string::npos) << part;
}

TEST(Shrinker, KeepsOnlyWhatTheFailureNeeds) {
  const auto multiplies = [](const Case& c) { return c.program.str().find(" *= ") != std::string::npos; };
  std::uint64_t seed = 0;
  while (!multiplies(generate(seed))) ++seed;
  const Case c = generate(seed), small = shrink(c, multiplies);
  const std::string text = small.program.str();
  EXPECT_TRUE(multiplies(small)) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '='), 1) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << "the head, one array, one statement:\n" << text;
}

}  // namespace
}  // namespace loopgrad::fuzz
