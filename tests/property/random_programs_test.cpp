// Random loop programs: every variant of every gradient against forward mode, plain and lowered, interpreted and
// compiled. A failure prints the seed, the program and the smallest program that fails in the same way.
#include "dsl/ir/printer.h"
#include "dsl/ir/visit.h"
#include "tests/support/test_cache.h"
#include "tools/fuzz/agreement.h"
#include "tools/fuzz/check.h"
#include "tools/fuzz/compiled.h"
#include "tools/fuzz/false_facts.h"
#include "tools/fuzz/features.h"
#include "tools/fuzz/memory.h"
#include "tools/fuzz/shrinker.h"
#include "transforms/pass/pass.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace loopgrad::fuzz {
namespace {

constexpr std::uint64_t kSeedsPerTest = 8;
constexpr std::uint64_t kTests = 8;

std::string explain(const Case& c, const Failure& failure, const std::function<Outcome(const Case&)>& again) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto fails_alike = [&](const Case& candidate) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    const Outcome outcome = again(candidate);
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
    const Outcome outcome = check(c, {.axes = {}, .cpu_seconds = 2});
    if (outcome.failure) {
      ADD_FAILURE() << explain(c, *outcome.failure, [](const Case& x) { return check(x); });
      return;  // one is enough to read
    }
    if (!outcome.refusal.empty()) {
      ++refused;
      refusals += "seed " + std::to_string(c.seed) + ": " + outcome.refusal + "\n";
    }
    if (outcome.largest_derivative < 1e-6) ++empty;
  }
  EXPECT_LE(refused, kSeedsPerTest / 4) << refusals;
  EXPECT_LE(empty, kSeedsPerTest / 2) << "too many programs without a derivative: nothing was compared";
}

/// Programs that sessions of the fuzzer have found something in: a race of sums in two pieces of a nest, an element
/// that was loaded before it had a value, a condition on a trip that was asked outside of its loop.
TEST(FoundPrograms, StayMended) {
  for (const std::uint64_t seed : {44015288u, 42002841u, 43000420u, 42002234u}) {
    const Case c = generate(seed, {.users_shapes = false, .changing_state = false});
    const Outcome outcome = check(c);
    if (outcome.failure)
      ADD_FAILURE() << outcome.failure->stage << ": " << outcome.failure->message << "\n" << describe(c);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, testing::Range<std::uint64_t>(0, kTests), [](const auto& test) {
  return fmt::format("{}_to_{}", test.param * kSeedsPerTest, (test.param + 1) * kSeedsPerTest - 1);
});

// Many programs in one unit, at sizes for threads and lanes: 1, 2, 3 and 7 threads, all types.
struct CompiledPrograms : testing::TestWithParam<std::uint64_t> {};

TEST_P(CompiledPrograms, AgreeWithTheInterpreterForAnyNumberOfThreads) {
  std::vector<Case> cases;
  for (std::uint64_t i = 0; i < 8; ++i) cases.push_back(generate(2000 + 8 * GetParam() + i));
  const std::vector<Outcome> outcomes = check_compiled(cases, {});
  std::size_t gradients = 0;
  std::string refusals;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    gradients += outcomes[i].tried.count("compiled: openmp, restructured");
    if (!outcomes[i].refusal.empty()) refusals += fmt::format("seed {}: {}\n", cases[i].seed, outcomes[i].refusal);
  }
  EXPECT_GE(gradients, cases.size() * 3 / 4) << "hardly anything was compiled\n" << refusals;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!outcomes[i].failure) continue;
    ADD_FAILURE() << explain(cases[i], *outcomes[i].failure,
                             [&](const Case& x) { return check_compiled({x}, {}).front(); });
    return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CompiledPrograms, testing::Range<std::uint64_t>(0, 2),
                         [](const auto& test) { return std::to_string(test.param); });

// ---- what the checks find ----

/// y[i] = x[i] * x[i], as a case with an index array and a fact about it.
Case small_case() {
  ProgramBuilder p("small");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<double>("x", {n}), index = p.input<int>("index", {n}), y = p.output<double>("y", {n});
  p.injective(index);
  for (const Value i : p.loop("i", 0, n)) y(index(i)) = x(i) * x(i);
  Case c{1, p.build(), {{"n", 5}}, {{"n", 3001}}, {}, {}, {}, {}};
  c.contents["index"] = {IndexContents::Kind::Permutation, {}};
  return c;
}

TEST(Check, FindsIndicesThatAreNotInjective) {
  EXPECT_FALSE(check(small_case(), {.axes = {}, .thorough = true}).failure);
  Case wrong = small_case();
  wrong.contents["index"] = {IndexContents::Kind::Below, ir::int_const(2)};
  const Outcome outcome = check(wrong);
  ASSERT_TRUE(outcome.failure);
  EXPECT_NE(outcome.failure->message.find("injective"), std::string::npos) << outcome.failure->message;
}

TEST(Check, TriesFalseFactsSchedulesAndGradientsOfGradients) {
  const Outcome outcome = check(small_case(), {.axes = {}, .thorough = true});
  EXPECT_FALSE(outcome.failure) << outcome.failure->message;
  for (const char* what : {"check: a false fact, interpreted", "check: a gradient of a gradient",
                           "check: restructured gradient for a CPU", "check: restructured gradient for a GPU"})
    EXPECT_TRUE(outcome.tried.contains(what)) << what;
}

/// Sums of the first trips[i] of x.
Case case_with_a_promise() {
  ProgramBuilder p("promised");
  const Value n = p.size("n");
  const ArrayHandle x = p.input<double>("x", {n}), y = p.output<double>("y", {n});
  const ArrayHandle trips = p.local<std::int64_t>("trips", {n});
  for (const Value i : p.loop("i", 0, n)) trips(i) = i / 2;
  for (const Value i : p.loop("i", 0, n)) {
    y(i) = 0.5;
    for (const Value j : p.loop("j", 0, trips(i), {.at_most = {n}})) y(i) = y(i) * x(j);
  }
  return {1, p.build(), {{"n", 7}}, {{"n", 301}}, {}, {}, {}, {}};
}

TEST(Check, BreaksPromises) {
  const Case c = case_with_a_promise();
  const Arrays inputs = make_arrays(c, true);
  const auto promise = break_a_promise(c, inputs, true);
  ASSERT_TRUE(promise);
  EXPECT_EQ(promise->loop, "j");
  EXPECT_NE(promise->program.str().find("(at most 2)"), std::string::npos) << promise->program.str();
  const Outcome interpreted = check(c, {.axes = {}, .thorough = true});
  EXPECT_FALSE(interpreted.failure) << interpreted.failure->message;
  for (const char* what : {"check: a broken at_most, interpreted", "check: accumulated gradient, not lowered"})
    EXPECT_TRUE(interpreted.tried.contains(what)) << what;
  ErrorInfo other_loop;
  other_loop.code = ErrorCode::BadIndex;
  other_loop.loop = "i";
  EXPECT_THROW(expect_broken(*promise, RuntimeError(other_loop)), Disagreement);
  Case none = c;
  none.sizes["n"] = 1;
  EXPECT_FALSE(break_a_promise(none, make_arrays(none, true), true)) << "no trip, no promise to break";
}

TEST(Check, ComparesCompiledResultsTightly) {
  const Case c = at_medium_sizes(small_case());
  NativeReference reference(c, {}, true);
  Arrays arrays = copy_of(reference.inputs());
  run(c.program.ir(), arrays, c.sizes, {.f64 = false, .checked = false});
  EXPECT_NO_THROW(reference.expect(arrays, {"y"}));
  HostArray& y = arrays.at("y");
  y.set(7, y.get(7) * (1 + 1e-15));
  EXPECT_NO_THROW(reference.expect(arrays, {"d_x"}));
  EXPECT_THROW(reference.expect(arrays, {"y"}), Disagreement);
  y.set(7, y.get(7) + 1e-6);
  EXPECT_THROW(reference.expect(arrays, {"d_x"}), Disagreement);
}

TEST(Check, FindsWritesOutsideOfArrays) {
  const GuardedArray array(HostArray(ScalarType::F32, {5}), 3, Device::Host);
  auto* const data = static_cast<float*>(array.view().data);
  data[4] = 1;
  EXPECT_EQ(array.contents("x").get(4), 1);
  data[5] = 1;
  EXPECT_THROW(array.contents("x"), Disagreement);
}

// ---- the generator and the shrinker themselves ----

TEST(Generator, SomeProgramsExpectSizesAndShareNames) {
  int expect = 0, share = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Case c = generate(seed), plain = generate(seed, {.expected_sizes = false, .common_names = false});
    expect += !c.expected.empty();
    share += c.program.str() != plain.program.str();
    EXPECT_TRUE(plain.expected.empty());
  }
  EXPECT_GE(expect, 5);
  EXPECT_GE(share, 2);
}

TEST(Generator, GivesTheSameProgramForTheSameSeed) {
  EXPECT_EQ(describe(generate(7)), describe(generate(7)));
  EXPECT_NE(describe(generate(7)), describe(generate(8)));
}

/// Without them a seed has the program that it had before there were any, as pinned seeds count on.
TEST(Generator, LeavesHalfOfTheProgramsWithoutChangingState) {
  int same = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    same += describe(generate(seed)) == describe(generate(seed, {.changing_state = false}));
  EXPECT_GT(same, 70);
  EXPECT_LT(same, 130);
}

TEST(Generator, CoversTheLanguage) {
  std::map<std::string, int> features;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    for (const std::string& feature : features_of(generate(seed))) ++features[feature];
    for (const std::string& feature : features_of(generate(seed, {.rounded_control = true}))) ++features[feature];
  }
  std::string all;
  for (const auto& [feature, count] : features) all += feature + "\n";
  for (const char* part : {"type: f16",
                           "type: bf16",
                           "type: f32",
                           "type: f64",
                           "type: i32",
                           "type: i64",
                           "type: bool",
                           "rank: 0",
                           "rank: 1",
                           "rank: 2",
                           "rank: 3",
                           "rank: 4",
                           "integers: output i32",
                           "integers: output i64",
                           "integers: output bool",
                           "integers: input bool",
                           "floats: in-out",
                           "fact: in_range",
                           "fact: sorted",
                           "fact: injective",
                           "fact: csr",
                           "fact: may_alias",
                           "fact: two arguments in one memory",
                           "index: from an array, written",
                           "index: from nested arrays, read",
                           "index: from nested arrays, written",
                           "index: modulo, read",
                           "index: modulo, written",
                           "index: min or max, read",
                           "index: cast of a float, written",
                           "index: floor of data",
                           "loop: while",
                           "loop: triangular",
                           "loop: bounds from data",
                           "loop: at_most",
                           "statement: +=",
                           "statement: *=",
                           "statement: min=",
                           "statement: max=",
                           "statement: if in a loop",
                           "local at depth: 3",
                           "size: zero",
                           "size: one",
                           "size when compiled: 256 and more",
                           "gradient: by some arrays only",
                           "gradient: of some outputs only",
                           "function: pow",
                           "function: select",
                           "shape: product_of_matrices",
                           "shape: images",
                           "shape: stencil_in_place",
                           "shape: sorted_segments",
                           "shape: largest_product",
                           "shape: floor_of_product",
                           "shape: branch_at_equality",
                           "shape: tied_extrema",
                           "loop: at_most",
                           "shape: turns",
                           "shape: other_views",
                           "shape: small_vectors",
                           "shape: optional_keys",
                           "shape: hashed",
                           "shape: nested_while",
                           "shape: followed_links",
                           "shape: by_key",
                           "shape: scalar_sums",
                           "shape: steps around others",
                           "shape: moving_permutation",
                           "shape: inner_conditions",
                           "shape: trip_before",
                           "shape: changing_bounds",
                           "shape: changing_rows",
                           "shape: changing_while",
                           "shape: two_graphs",
                           "shape: takers",
                           "shape: masked_fill",
                           "shape: stale_elements",
                           "shape: kept_extrema",
                           "shape: index_by_itself",
                           "shape: no_step",
                           "shape: strided_stores",
                           "shape: local_by_size",
                           "index: from integers that change",
                           "loop: bounds that change",
                           "loop: descending",
                           "statement: branch on integers that change",
                           "shape: own_rule"})
    EXPECT_GT(features[part], 0) << part << " among\n" << all;
}

TEST(Shrinker, KeepsOnlyWhatTheFailureNeeds) {
  const auto multiplies = [](const Case& c) { return c.program.str().find(" *= ") != std::string::npos; };
  std::uint64_t seed = 0;
  while (!multiplies(generate(seed))) ++seed;
  const Case c = generate(seed);
  const Case small = shrink(c, multiplies);
  const std::string text = small.program.str();
  EXPECT_TRUE(multiplies(small)) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '='), 1) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << "the head, one array, one statement:\n" << text;
}

/// A rule with other statements may be wrong by itself, which would be taken for the finding.
TEST(Shrinker, LeavesRulesAsTheyAre) {
  const auto rule_of = [](const Case& c) {
    std::string rule;
    ir::walk_stmts(c.program.ir().body, [&](const ir::Stmt& s) {
      if (const auto* region = s.as<ir::CustomGradient>()) rule = ir::print(region->body) + ir::print(region->adjoint);
    });
    return rule;
  };
  std::uint64_t seed = 0;
  while (rule_of(generate(seed)).empty()) ++seed;
  ASSERT_LT(seed, 100) << "gradients of their own are rare";
  const Case c = generate(seed);
  const Case small = shrink(c, [&](const Case& x) { return !rule_of(x).empty(); });
  EXPECT_LT(small.program.str().size(), c.program.str().size());
  EXPECT_EQ(rule_of(small), rule_of(c));
}

// ---- programs that go without passes ----

TEST(LeftOutPasses, AreSomeOfThoseThatAreNotRequiredForSomePrograms) {
  std::set<std::string> optional;
  for (const transforms::Machine& machine : {transforms::cpu_machine(), transforms::gpu_machine()})
    for (const transforms::Pass& pass : transforms::passes({.machine = machine}))
      if (!pass.required) optional.insert(pass.name);
  std::set<std::string> reached;
  int programs = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const std::set<std::string> left_out = passes_to_leave_out(seed);
    programs += !left_out.empty();
    reached.insert(left_out.begin(), left_out.end());
  }
  EXPECT_EQ(reached, optional);
  EXPECT_GT(programs, 60);
  EXPECT_LT(programs, 200);
  std::uint64_t seed = 0;
  while (passes_to_leave_out(seed).empty()) ++seed;
  EXPECT_EQ(generate(seed).left_out, passes_to_leave_out(seed));
  EXPECT_TRUE(generate(seed, {.left_out_passes = false}).left_out.empty());
  EXPECT_NE(describe(generate(seed)).find("passes left out: "), std::string::npos);
}

TEST(LeftOutPasses, AreNotRunButBeforeASchedule) {
  ProgramBuilder p("total");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n});
  auto total = p.inout<float>("total", {});
  for (auto i : p.loop("i", 0, n)) total() += x(i);
  const Program program = p.build();
  const auto text = [&](const transforms::LowerOptions& options) {
    return ir::print(formed(program.ir(), Form::Cpu, {{"n", 3}}, options));
  };
  EXPECT_NE(text({}).find("total_part"), std::string::npos);
  EXPECT_EQ(text({.skip = {"restructure_sums"}}).find("total_part"), std::string::npos);
  Schedule schedule(program);
  schedule.add("reverse(block#2)");  // a loop of the partial results
  EXPECT_NE(text({.schedule = schedule, .skip = {"restructure_sums"}}).find("total_part"), std::string::npos);
}

TEST(LeftOutPasses, AreAsFewAsTheFindingNeeds) {
  Case c = generate(1);
  c.left_out = {"fuse_rows", "jam_sums", "map_to_gpu"};
  const Case small = shrink(c, [](const Case& x) { return x.left_out.contains("jam_sums"); });
  EXPECT_EQ(small.left_out, std::set<std::string>{"jam_sums"});
}

}  // namespace
}  // namespace loopgrad::fuzz
