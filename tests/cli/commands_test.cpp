// What each command prints and writes.
#include "tests/cli/run_cli.h"
#include "tools/programs/programs.h"

#include <loopgrad/program.h>

#include <nlohmann/json.hpp>

namespace loopgrad::test {
namespace {

using nlohmann::ordered_json;

std::vector<std::string> keys(const ordered_json& object) {
  std::vector<std::string> names;
  for (const auto& item : object.items()) names.push_back(item.key());
  return names;
}

TEST(List, NamesEveryProgram) {
  const CliResult text = run_cli(programs::all(), {"list"});
  const CliResult result = run_cli(programs::all(), {"list", "--json", "-"});
  EXPECT_EQ(result.status, 0);
  const auto json = ordered_json::parse(result.out);
  ASSERT_GE(json.size(), 10u);
  for (const auto& entry : json) {
    EXPECT_EQ(keys(entry), (std::vector<std::string>{"name", "summary", "sizes"}));
    EXPECT_FALSE(entry["sizes"].empty());
    EXPECT_NE(text.out.find(entry["name"].get<std::string>()), std::string::npos);
  }
}

TEST(Show, PrintsEveryStage) {
  for (const std::string stage : {"program", "adjoint", "summation", "schedule", "code"}) {
    const CliResult result = run_cli(programs::all(), {"show", "recurrence", "--stage", stage});
    EXPECT_EQ(result.status, 0) << stage << result.err;
    EXPECT_NE(result.out.find("x"), std::string::npos) << stage;
    if (stage == "adjoint") {
      EXPECT_NE(result.out.find("d_a"), std::string::npos);
    }
  }
}

TEST(Show, PrintsTheLoopsOfASchedule) {
  const CliResult result = run_cli(programs::all(), {"show", "matmul", "--stage", "schedule", "--schedule",
                                                     "split(i, 32)", "--backward-schedule", "split(j#2, 16)"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("for i_tile in 0.."), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("for j_tile in 0.."), std::string::npos) << result.out;
}

TEST(Explain, NamesTheUsersLines) {
  const CliResult result = run_cli(programs::all(), {"explain", "conv1d", "--size", "n=100,k=3"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("conv1d.cpp:"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("n=100"), std::string::npos);
  const auto json =
      ordered_json::parse(run_cli(programs::all(), {"explain", "conv1d", "--size", "n=100,k=3", "--json", "-"}).out);
  ASSERT_EQ(json["programs"].size(), 2u);
  EXPECT_EQ(json["programs"][0]["operations"], 2.0 * 100 * 3);
  EXPECT_NE(result.out.find("Estimates for sums of the backward program (k = 3, n = 100; 16 threads)"),
            std::string::npos)
      << result.out;
  const auto& sum = json["programs"][1]["sums"][0];
  EXPECT_EQ(sum["basis"], "k = 3, n = 100");
  ASSERT_EQ(sum["candidates"].size(), 4u);
  for (const auto& candidate : sum["candidates"])
    EXPECT_EQ(keys(candidate), (std::vector<std::string>{"plan", "possible", "microseconds", "bytes", "operations",
                                                         "parallel", "note"}));
}

TEST(Compare, WritesTheAgreedJson) {
  const CliResult result = run_cli(
      programs::all(), {"compare", "conv1d", "--size", "n=1000", "--size", "k=5", "--threads", "2", "--json", "-"});
  EXPECT_EQ(result.status, 0) << result.err;
  const auto json = ordered_json::parse(result.out);
  EXPECT_EQ(keys(json),
            (std::vector<std::string>{"program", "target", "sizes", "variants", "runs_compared", "roofline"}));
  EXPECT_EQ(json["sizes"]["n"], 1000);
  ASSERT_EQ(json["variants"].size(), 3u);
  for (const auto& variant : json["variants"]) {
    EXPECT_EQ(keys(variant), (std::vector<std::string>{"name", "forward_ms", "backward_ms", "tape_bytes", "atomics",
                                                       "max_rel_error", "bitwise_repeatable", "roofline_fraction"}));
    EXPECT_GT(variant["forward_ms"].get<double>(), 0);
    EXPECT_GT(variant["roofline_fraction"].get<double>(), 0);
    EXPECT_LT(variant["max_rel_error"].get<double>(), 1e-4);
  }
  EXPECT_EQ(json["variants"][2]["name"], "restructured");
  EXPECT_EQ(json["variants"][2]["atomics"], 0);
  EXPECT_EQ(json["variants"][2]["bitwise_repeatable"], true);
}

TEST(Compare, ComparesOnTheInterpreterAtSmallSizes) {
  const CliResult result = run_cli(programs::all(), {"compare", "softmax", "--target", "interpreter"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("restructured"), std::string::npos);
}

/// y = floor(x) at whole numbers: the difference over the jump is nowhere near the derivative, which is zero.
Program staircase() {
  ProgramBuilder p("staircase");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = floor(x(i));
  return p.build();
}

TEST(Check, ExitsWithOneOnAMismatch) {
  ProgramEntry entry{.name = "staircase", .summary = "", .build = staircase, .sizes = {{"n", 4}}};
  entry.fill = [](const Sizes&, std::uint64_t, InputArrays& arrays) {
    for (std::int64_t i = 0; i < 4; ++i) arrays.at("x").set(i, static_cast<double>(i));
  };
  const CliResult at_jumps = run_cli({entry}, {"check", "staircase", "--target", "interpreter"});
  EXPECT_EQ(at_jumps.status, 1);
  EXPECT_NE(at_jumps.out.find("MISMATCH"), std::string::npos) << at_jumps.out << at_jumps.err;
  entry.fill = {};
  EXPECT_EQ(run_cli({entry}, {"check", "staircase", "--target", "interpreter"}).status, 0);
}

/// Reads x[i+1], past the end in the last trip.
Program reads_past_the_end() {
  ProgramBuilder p("past_the_end");
  auto n = p.size("n");
  auto x = p.input<double>("x", {n});
  auto y = p.output<double>("y", {n});
  for (auto i : p.loop("i", 0, n)) y(i) = x(i + 1);
  return p.build();
}

TEST(Check, ExitsWithOneOnAFindingOfTheCheckedInterpreter) {
  const CliResult result =
      run_cli({{.name = "past", .summary = "", .build = reads_past_the_end, .sizes = {{"n", 4}}}}, {"check", "past"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("commands_test.cpp"), std::string::npos) << result.err;
}

TEST(Check, FillsIndexArraysByTheirFacts) {
  auto build = [] {
    ProgramBuilder p("facts");
    auto n = p.size("n"), e = p.size("e");
    auto ptr = p.input<int>("ptr", {n + 1}), idx = p.input<int>("idx", {e}), order = p.input<int>("order", {n});
    auto x = p.input<float>("x", {n});
    auto y = p.output<float>("y", {n});
    p.csr(ptr, e);
    p.in_range(idx, 0, n);
    p.in_range(order, 0, n);
    p.injective(order);
    for (auto r : p.loop("r", 0, n)) {
      y(order(r)) = 0.0f;
      for (auto k : p.loop("k", ptr(r), ptr(r + 1))) y(order(r)) += x(idx(k)) * x(idx(k));
    }
    return p.build();
  };
  const CliResult result =
      run_cli({{.name = "facts", .summary = "", .build = build, .sizes = {{"n", 7}, {"e", 19}}}}, {"check", "facts"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
}

TEST(Fuzz, CountsWhatItTried) {
  const CliResult result = run_cli(programs::all(), {"fuzz", "--count", "6", "--seed", "7", "--target", "interpreter",
                                                     "--jobs", "1", "--json", "-"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  const auto json = ordered_json::parse(result.out);
  EXPECT_EQ(json["programs"].get<int>(), 6);
  EXPECT_EQ(json["compiled"].get<int>(), 0);
  EXPECT_GT(json["features"]["statement: ="].get<int>(), 0);
  EXPECT_TRUE(json["mismatch"].is_null());
}

TEST(Fuzz, SplitsTheWorkAmongProcesses) {
  const CliResult result = run_cli(programs::all(), {"fuzz", "--count", "6", "--seed", "7", "--target", "interpreter",
                                                     "--jobs", "2", "--json", "-"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(ordered_json::parse(result.out)["programs"].get<int>(), 6);
}

}  // namespace
}  // namespace loopgrad::test
