// Sessions of random programs end when they must and say what they did, whatever a program does to them.
#include "tools/fuzz/interruption.h"
#include "tools/fuzz/session.h"
#include "tools/fuzz/shrink_finding.h"
#include "tools/fuzz/shrinker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

namespace loopgrad::fuzz {
namespace {

class Clock {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
void ignore(const SessionResult&) {}

/// Programs that are checked in no time, but for one that never ends.
Checks hangs_at(std::uint64_t seed) {
  Checks checks;
  checks.interpreted = [seed](const Case& c, const CheckOptions&) {
    sleep_for(c.seed == seed ? 1000 : 0.01);
    return Outcome();
  };
  checks.compiled = [](const std::vector<Case>& cases, const CompiledOptions&, const CompiledWatch&) {
    return std::vector<Outcome>(cases.size());
  };
  return checks;
}

constexpr std::uint64_t none = ~std::uint64_t{0};
constexpr double grace = 10;  // that a session may take longer than it was given

TEST(FuzzSession, EndsOnTimeAlthoughAProgramDoesNot) {
  for (const int jobs : {1, 2}) {
    SessionOptions options{.seed = 1, .seconds = 1, .jobs = jobs, .compiled_percent = 0, .checks = hangs_at(3)};
    const Clock clock;
    const SessionResult result = run_session(options, ignore);
    EXPECT_LT(clock.seconds(), 1 + grace);
    ASSERT_EQ(result.given_up.size(), 1u);
    EXPECT_EQ(result.given_up[0].seed, 3u);
    EXPECT_GE(result.programs, 2u);
    EXPECT_TRUE(result.findings.empty());
  }
}

TEST(FuzzSession, TakesTheTimeThatItIsGiven) {
  // It starts just before a full second of the clock, which is no second of the session.
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  sleep_for(std::ceil(now) - now + 0.97);
  const SessionOptions options{.seed = 1, .seconds = 1, .jobs = 1, .compiled_percent = 0, .checks = hangs_at(none)};
  const Clock clock;
  run_session(options, ignore);
  EXPECT_GE(clock.seconds(), 1);
}

TEST(FuzzSession, AProgramThatNeverEndsIsAFindingAndTheOthersAreChecked) {
  SessionOptions options{.seed = 1, .count = 40, .jobs = 2, .compiled_percent = 0};
  options.keep_going = true;
  options.seconds_of_a_step = 1;
  options.checks = hangs_at(3);
  const SessionResult result = run_session(options, ignore);
  EXPECT_EQ(result.programs, 40u);
  ASSERT_EQ(result.findings.size(), 1u);
  EXPECT_EQ(result.findings[0].seed, 3u);
  EXPECT_NE(result.findings[0].failure.message.find("does not end"), std::string::npos);
}

TEST(FuzzSession, AHangIsFoundWithinTheSession) {
  EXPECT_EQ(longest_step(0), 600);
  EXPECT_EQ(longest_step(5000), 600);
  EXPECT_EQ(longest_step(400), 200);
  EXPECT_EQ(longest_step(5), 60) << "a compiler may take its time";
}

TEST(FuzzSession, ALongCompilationIsGivenUp) {
  SessionOptions options{.seed = 1, .seconds = 1, .jobs = 2, .compiled_percent = 100, .checks = hangs_at(none)};
  options.checks.compiled = [](const std::vector<Case>& cases, const CompiledOptions&, const CompiledWatch& watch) {
    watch.now(0, "compiling");
    sleep_for(1000);
    return std::vector<Outcome>(cases.size());
  };
  const Clock clock;
  const SessionResult result = run_session(options, ignore);
  EXPECT_LT(clock.seconds(), 1 + grace);
  EXPECT_GT(result.programs, 0u);
  EXPECT_EQ(result.compiled, 0u);
  EXPECT_EQ(result.not_compiled, result.programs);
  ASSERT_FALSE(result.given_up.empty());
  EXPECT_EQ(result.given_up[0].what, "compiling");
}

TEST(FuzzSession, ProgramsAreCompiledWhileThereIsTime) {
  SessionOptions options{.seed = 1, .seconds = 1, .jobs = 2, .compiled_percent = 100, .checks = hangs_at(none)};
  options.checks.interpreted = [](const Case&, const CheckOptions&) {
    sleep_for(0.4);  // too few for a whole unit
    return Outcome();
  };
  EXPECT_GT(run_session(options, ignore).compiled, 0u);
}

TEST(FuzzSession, AnotherProcessGoesOnAfterTheDeviceIsSpoilt) {
  SessionOptions options{.seed = 1, .count = 60, .jobs = 1, .compiled_percent = 100, .checks = hangs_at(none)};
  options.device = true;
  options.keep_going = true;
  options.checks.compiled = [](const std::vector<Case>& cases, const CompiledOptions&, const CompiledWatch&) {
    static int calls = 0;  // in this process
    if (++calls > 1) ::_exit(9);
    std::vector<Outcome> outcomes(cases.size());
    outcomes.back().unfinished = true;
    return outcomes;
  };
  const SessionResult result = run_session(options, ignore);
  EXPECT_EQ(result.programs, 60u);
  EXPECT_TRUE(result.findings.empty()) << result.findings[0].failure.message;
  EXPECT_GT(result.compiled, result.not_compiled);
  EXPECT_EQ(result.compiled + result.not_compiled, 60u);
}

TEST(FuzzSession, ASignalEndsItAndKeepsItsResult) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const Interruption interruption;
    SessionOptions options{.seed = 1, .seconds = 1000, .jobs = 2, .compiled_percent = 0, .checks = hangs_at(3)};
    options.interrupted = [] { return Interruption::signal() != 0; };
    const pid_t me = ::getpid();
    std::thread sender([=] {
      sleep_for(1);
      for (int k = 0; k < 2; ++k) ::kill(me, signal);  // `timeout` sends it to the process and to its group
    });
    const Clock clock;
    const SessionResult result = run_session(options, ignore);
    sender.join();
    EXPECT_LT(clock.seconds(), 1 + grace);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(Interruption::signal(), signal);
    EXPECT_GE(result.programs, 2u);
    ASSERT_EQ(result.given_up.size(), 1u);
  }
}

// ---- shrinking ----

TEST(ShrinkFindings, TakesAsLongAsItMay) {
  SessionOptions options{.seed = 1, .checks = hangs_at(none)};
  options.checks.interpreted = [](const Case& c, const CheckOptions&) {
    sleep_for(c.seed == 7 ? 1000 : 0.3);
    Outcome outcome;
    outcome.failure = Failure{"stage", "wrong"};
    return outcome;
  };
  std::vector<Finding> findings;
  for (const std::uint64_t seed : {7, 8, 9, 10, 11}) findings.push_back({seed, {"stage", "wrong"}, false});
  const Clock clock;
  const std::vector<SmallerProgram> smaller =
      shrink_findings(findings, options, {.of_a_finding = 1, .in_all = 2.5, .of_a_check = 30});
  EXPECT_LT(clock.seconds(), 4.5);
  ASSERT_EQ(smaller.size(), 3u);
  EXPECT_EQ(smaller[0].seed, 7u);
  EXPECT_EQ(smaller[0].smaller.program.str(), smaller[0].original.program.str()) << "no candidate came back";
  EXPECT_LT(smaller[1].smaller.program.str().size(), smaller[1].original.program.str().size());
}

TEST(ShrinkFindings, MayTakeWhatTheSessionHasLeft) {
  EXPECT_EQ(shrink_limits({.seconds = 0}, 1000).in_all, 60);
  EXPECT_EQ(shrink_limits({.seconds = 600}, 100).in_all, 60);
  EXPECT_EQ(shrink_limits({.seconds = 120}, 100).in_all, 20);
  EXPECT_EQ(shrink_limits({.seconds = 120}, 123).in_all, 5);
}

TEST(ShrinkFindings, EndWithTheSession) {
  SessionOptions options{.seed = 1, .checks = hangs_at(8)};
  std::atomic<bool> stop = false;
  options.interrupted = [&] { return stop.load(); };
  std::thread stopper([&] {
    sleep_for(0.5);
    stop = true;
  });
  const Clock clock;
  shrink_findings({{8, {"stage", "wrong"}, false}, {9, {"stage", "wrong"}, false}}, options, {});
  EXPECT_LT(clock.seconds(), 5);
  stopper.join();
}

}  // namespace
}  // namespace loopgrad::fuzz
