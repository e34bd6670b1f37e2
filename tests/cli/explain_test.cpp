// What `explain` says, its JSON, and its remarks for editors.
#include "tests/cli/run_cli.h"
#include "tools/cli/explanation.h"
#include "tools/programs/programs.h"

#include <loopgrad/program.h>

#include <nlohmann/json.hpp>

#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace loopgrad::test {
namespace {

using nlohmann::ordered_json;

ordered_json explained(std::vector<std::string> words) {
  words.insert(words.begin(), "explain");
  words.insert(words.end(), {"--json", "-"});
  const CliResult result = run_cli(programs::all(), words);
  EXPECT_EQ(result.status, 0) << result.err;
  return ordered_json::parse(result.out);
}

std::string said(std::vector<std::string> words) {
  words.insert(words.begin(), "explain");
  const CliResult result = run_cli(programs::all(), words);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

/// Data alone say how long the loop is, so nobody knows how long the tape will be.
Program windows() {
  ProgramBuilder p("windows");
  auto n = p.size("n");
  auto x = p.input<float>("x", {n}), y = p.output<float>("y", {n});
  auto first = p.input<int>("first", {n}), last = p.input<int>("last", {n});
  for (auto i : p.loop("i", 0, n)) {
    y(i) = 1.0f;
    for (auto j : p.loop("j", first(i), last(i))) y(i) = sin(y(i)) * x(j);
  }
  return p.build();
}

TEST(Explain, TapesWhoseLengthDataDecide) {
  for (const char* target : {"openmp", "cuda"}) {
    const CliResult result =
        run_cli({{"windows", "", windows, {{"n", 100}}}}, {"explain", "windows", "--details=tape", "--target", target});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("most_j"), std::string::npos) << result.out;
    const std::size_t memory = result.out.find("Memory: ");
    ASSERT_NE(memory, std::string::npos);
    const std::string said = result.out.substr(memory, result.out.find("\n\n", memory) - memory);
    EXPECT_EQ(said.find("at most"), std::string::npos) << said;
    EXPECT_NE(said.find("4*n*most_j bytes of tapes as data decide"), std::string::npos) << said;
  }
}

/// Of loops whose bounds data choose nobody knows which iterations there are.
TEST(Explain, GivesNoExampleOfIterationsThatMayNotExist) {
  const CliResult json = run_cli({{"windows", "", windows, {{"n", 100}}}}, {"explain", "windows", "--json", "-"});
  const auto forward = ordered_json::parse(json.out)["programs"][0];
  for (const auto& loop : forward["loops"]) {
    if (loop["loop"] != "j") continue;
    const std::string reason = loop["reason"];
    EXPECT_NE(reason.find("may be"), std::string::npos) << reason;
    EXPECT_EQ(reason.find("as for"), std::string::npos) << reason;
  }
}

/// A few rows, each of which takes steps that need each other: a block for each, or a thread.
Program rows_of_steps() {
  ProgramBuilder p("rows_of_steps");
  auto b = p.size("b"), t = p.size("t"), m = p.size("m");
  auto x = p.input<float>("x", {b, t, m}), y = p.output<float>("y", {b, m});
  for (auto r : p.loop("r", b)) {
    auto now = p.local<float>("now", {m}), next = p.local<float>("next", {m});
    for (auto k : p.loop("k", m)) now(k) = x(r, 0, k);
    for (auto i : p.loop("i", 1, t)) {
      for (auto k : p.loop("k1", m)) next(k) = now(max(k - 1, 0)) * tanh(now(k)) + x(r, i, k);
      for (auto k : p.loop("k2", m)) now(k) = next(k);
    }
    for (auto k : p.loop("k3", m)) y(r, k) = now(k);
  }
  return p.build();
}

TEST(Explain, StepsInABlockAreNotParallel) {
  const std::vector<ProgramEntry> entries = {{"rows_of_steps", "", rows_of_steps, {{"b", 32}, {"t", 500}, {"m", 80}}}};
  const CliResult text = run_cli(entries, {"explain", "rows_of_steps", "--target", "cuda"});
  EXPECT_EQ(text.out.find("All loops that take time are parallel"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("'i' (explain_test.cpp:"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("499 iterations one after the other in one block"), std::string::npos) << text.out;
  const CliResult json = run_cli(entries, {"explain", "rows_of_steps", "--target", "cuda", "--json", "-"});
  const auto forward = ordered_json::parse(json.out)["programs"][0];
  EXPECT_GT(forward["microseconds"].get<double>(), 200) << "threads meet in each of 499 steps";
  EXPECT_EQ(forward["in_order"][0]["in_block"], true);
}

/// Two iterations at once, many times: a block does them sooner than kernels start.
TEST(Explain, ManySmallStepsAreNoLaunches) {
  const auto swings = [] {
    ProgramBuilder p("swings");
    auto t = p.size("t");
    auto x = p.inout<float>("x", {2});
    for (auto s : p.loop("s", t)) {
      (void)s;
      auto next = p.local<float>("next", {2});
      for (auto k : p.loop("k", 2)) next(k) = tanh(x(1 - k));
      for (auto k : p.loop("k1", 2)) x(k) = next(k);
    }
    return p.build();
  };
  const CliResult json =
      run_cli({{"swings", "", swings, {{"t", 100000}}}}, {"explain", "swings", "--target", "cuda", "--json", "-"});
  EXPECT_LT(ordered_json::parse(json.out)["programs"][0]["microseconds"].get<double>(), 150000) << json.err;
}

TEST(Explain, ThreeIterationsAreTooFewForAMachine) {
  const std::vector<ProgramEntry> entries = {{"rows_of_steps", "", rows_of_steps, {{"b", 3}, {"t", 5000}, {"m", 800}}}};
  const CliResult text = run_cli(entries, {"explain", "rows_of_steps"});
  EXPECT_EQ(text.out.find("All loops that take time are parallel"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("no more than 3 iterations at once"), std::string::npos) << text.out;
}

/// What passes do in the end for a sum of the user's is no sum of the user's.
TEST(Explain, NamesNoSumsOfPasses) {
  for (const char* target : {"openmp", "cuda"}) {
    const std::string text = said({"histogram", "--target", target, "--details=sums"});
    EXPECT_EQ(text.find("h_part["), std::string::npos) << text;
    for (const char* program : {"softras_render", "rsbench"})
      for (const auto& part : explained({program, "--target", target})["programs"])
        for (const auto& sum : part["sums"])
          EXPECT_FALSE(sum["sum"].get<std::string>().starts_with("indices[")) << program << sum;
  }
}

/// Each thread, or block, has a total of its own, which several iterations add to.
TEST(Explain, NamesSumsIntoLocals) {
  for (const char* target : {"openmp", "cuda"}) {
    const auto json = explained({"gmm", "--target", target});
    const auto& sums = json["programs"][0]["sums"];
    EXPECT_TRUE(std::any_of(sums.begin(), sums.end(), [](const auto& sum) {
      return sum["sum"].template get<std::string>().starts_with("z += ");
    })) << sums;
  }
}

/// What bounds a `while` is often the length of an array.
TEST(Explain, WhilesAreNotExpectedToReachTheirBound) {
  const auto window = [] {
    ProgramBuilder p("window");
    auto n = p.size("n");
    auto time = p.input<float>("time", {n}), y = p.output<float>("y", {n});
    auto first = p.scalar<std::int64_t>("first", 0);
    for (auto i : p.loop("i", n)) {
      for (auto s : p.loop_while("s", n, [&](auto) { return first < i && time(first) + 1.0f < time(i); })) {
        (void)s;
        first += 1;
      }
      y(i) = time(i) - time(first);
    }
    return p.build();
  };
  const CliResult json = run_cli({{"window", "", window, {{"n", 500000}}}}, {"explain", "window", "--json", "-"});
  EXPECT_LT(ordered_json::parse(json.out)["programs"][0]["microseconds"].get<double>(), 1e6) << json.err;
}

TEST(Explain, NamesTheUsersLines) {
  const std::string text = said({"conv1d", "--size", "n=100,k=3", "--details"});
  EXPECT_NE(text.find("conv1d.cpp:"), std::string::npos) << text;
  EXPECT_NE(text.find("n=100"), std::string::npos);
  const auto json = explained({"conv1d", "--size", "n=100,k=3"});
  ASSERT_EQ(json["programs"].size(), 2u);
  EXPECT_EQ(json["programs"][0]["operations"], 2.0 * 100 * 3);
  EXPECT_NE(text.find("Estimates for sums of the backward program (k = 3, n = 100)"), std::string::npos) << text;
  EXPECT_NE(text.find("Threads, lanes and memory of the backward program"), std::string::npos) << text;
  ASSERT_FALSE(json["programs"][0]["runs"].empty());
  for (const auto& run : json["programs"][0]["runs"])
    EXPECT_EQ(keys(run), (std::vector<std::string>{"what", "where", "decision", "reason"}));
  const auto& sum = json["programs"][1]["sums"][0];
  EXPECT_EQ(sum["basis"], "k = 3, n = 100");
  ASSERT_EQ(sum["candidates"].size(), 4u);
  for (const auto& candidate : sum["candidates"])
    EXPECT_EQ(keys(candidate), (std::vector<std::string>{"plan", "possible", "microseconds", "bytes", "operations",
                                                         "parallel", "note", "level"}));
  const auto& weights = json["programs"][1]["sums"][1];  // one result for each block of iterations
  EXPECT_EQ(weights["plan"], "partials") << text;
  EXPECT_EQ(weights["level"], "grid");
  EXPECT_NE(text.find("* partials"), std::string::npos) << text;
}

TEST(Explain, EstimatesTheWayThatIsTakenWhereDataChoose) {
  const std::string text = said({"embedding", "--target", "cuda", "--details=sums"});
  EXPECT_NE(text.find("* segments"), std::string::npos) << text;
}

TEST(Explain, SumsThatThreadsOfAGpuTakeApartAreNotInOrder) {
  const auto loss = [] {
    ProgramBuilder p("loss");
    const auto n = p.size("n");
    const auto x = p.input<float>("x", {n, 4});
    auto y = p.output<float>("y", {1});
    y(0) = 0.0f;
    for (auto i : p.loop("i", n))
      for (auto j : p.loop("j", 4)) y(0) += x(i, j) * x(i, j);
    return p.build();
  };
  const CliResult result = run_cli({{"loss", "", loss, {{"n", 1000000}}}}, {"explain", "loss", "--target", "cuda"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("All loops that take time are parallel."), std::string::npos) << result.out;
}

TEST(Explain, SaysFirstWhatAPersonWantsToKnow) {
  const std::string text = said({"heat2d"});
  std::size_t last = 0;
  for (const char* part : {"heat2d (openmp, restructured) T=10 m=1024 n=1024", "Forward takes about", "The tape takes",
                           "Memory: ", "Where the time goes:", "What is not parallel, and why:", "--details"}) {
    const std::size_t at = text.find(part);
    ASSERT_NE(at, std::string::npos) << part << " in\n" << text;
    EXPECT_GE(at, last) << part;
    last = at;
  }
  EXPECT_NE(text.find("'t' (heat2d.cpp:16, forward)"), std::string::npos) << text;
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 50);
  EXPECT_NE(said({"conv1d"}).find("There is no tape"), std::string::npos);
  EXPECT_NE(said({"recurrence", "--variant", "naive-tape"}).find("The tape is a stack"), std::string::npos);
}

TEST(Explain, GivesTheDetailsThatAreAskedFor) {
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string tape = said({"gmm", "--details=tape"}), two = said({"gmm", "--details=sums,remarks"}),
                    none = said({"gmm"});
  EXPECT_TRUE(has(tape, "Needed values and where"));
  EXPECT_FALSE(has(tape, "Sums of the forward program") || has(tape, "Loops of the") || has(none, "Needed values"));
  EXPECT_TRUE(has(two, "Sums of the forward program") && has(two, "Remark"));
  EXPECT_FALSE(has(two, "Needed values"));
}

TEST(Explain, HasATableOfTheTape) {
  const auto json = explained({"gmm"});
  const auto& z = json["tape"][0];  // the largest comes first
  EXPECT_EQ(z["value"], "z");
  EXPECT_EQ(z["how"], "saved");
  EXPECT_EQ(z["formula"], "4*n*K*d");
  EXPECT_EQ(z["bytes"], 4.0 * 1000 * 25 * 20);
  EXPECT_NEAR(z["written_bytes"].get<double>(), 2e6, 1e-3);
  EXPECT_GE(z["read_bytes"].get<double>(), 2e6 - 1e-3);
  EXPECT_NE(z["alternative"].get<std::string>().find("operations each time"), std::string::npos) << z;
  std::set<std::string> ways;
  double all = 0;
  for (const auto& row : json["tape"]) {
    ways.insert(row["how"].get<std::string>());
    if (row["bytes"].is_number()) all += row["bytes"].get<double>();
    if (row["how"] == "read" && row["read_bytes"].is_number()) {
      EXPECT_TRUE(row["alternative"].get<std::string>().starts_with("a copy: ")) << row;
    }
  }
  EXPECT_TRUE(ways.count("saved") && ways.count("read"));
  EXPECT_EQ(json["tape_bytes"], all);  // in gmm each value has a tape of its own
  const auto again = explained({"hand"});
  EXPECT_TRUE(std::any_of(again["tape"].begin(), again["tape"].end(), [](const auto& row) {
    return row["how"] == "computed again" &&
           row["alternative"].template get<std::string>().find("bytes moved") != std::string::npos;
  }));
}

/// One array of n elements would take terabytes, and a walk over the iterations years.
TEST(Explain, MakesNoArraysAndWalksNoIterations) {
  const auto json = explained({"conv1d", "--size", "n=1000000000000,k=1000"});
  EXPECT_EQ(json["programs"][0]["operations"], 2e15);
  EXPECT_GT(json["programs"][0]["microseconds"].get<double>(), 1e6);
  const auto graph = explained({"gat", "--size", "V=1000000000,E=100000000000"});
  EXPECT_GT(graph["programs"][1]["operations"].get<double>(), 1e12);
  const auto banded = explained({"window_attention", "--size", "S=100000000,w=4096"});
  EXPECT_GT(banded["programs"][0]["operations"].get<double>(), 1e13);
}

TEST(Explain, EstimatesTheTimeOfEachPart) {
  for (const std::string target : {"openmp", "cuda"}) {
    const auto small = explained({"heat2d", "--target", target, "--size", "n=512,m=512"}),
               large = explained({"heat2d", "--target", target, "--size", "n=2048,m=2048"});
    for (const std::size_t program : {0u, 1u}) {
      double sum = 0;
      for (const auto& part : large["programs"][program]["parts"]) sum += part["microseconds"].get<double>();
      const double all = large["programs"][program]["microseconds"].get<double>();
      EXPECT_NEAR(sum, all, 1e-6 * all);
      EXPECT_GT(all, 4 * small["programs"][program]["microseconds"].get<double>()) << target;
    }
    const auto& steps = large["programs"][0]["in_order"][0];
    EXPECT_EQ(steps["loop"], "t");
    EXPECT_EQ(steps["has_parallel"], true);
  }
}

/// In lulesh loops join the region of the loop before them.
TEST(Explain, CountsAllWorkInSomePart) {
  for (const std::string program : {"lulesh", "conv1d", "heat2d"}) {
    const auto json = explained({program});
    double flops = 0;
    for (const auto& part : json["programs"][0]["parts"]) flops += part["flops"].get<double>();
    const double all = json["programs"][0]["operations"].get<double>();
    EXPECT_NEAR(flops / all, 1, 0.1) << program;
  }
}

TEST(Explain, AdvisesWhatToChange) {
  const std::string text = said({"rsbench"});
  EXPECT_NE(text.find("adds to elements that data choose"), std::string::npos) << text;
  const auto json = explained({"rsbench"});
  EXPECT_FALSE(json["advice"].empty());
}

/// Of a large table that is added to here and there, and of a small one.
TEST(Explain, SaysWhereAtomicsWouldBeFaster) {
  const std::string large = said({"embedding", "--target", "cuda", "--size", "rows=100000,n=1000000,d=1"});
  EXPECT_NE(large.find("as atomics would, by estimate"), std::string::npos) << large;
  const std::string none = said({"conv1d", "--target", "cuda"});
  EXPECT_EQ(none.find("atomics would"), std::string::npos) << none;
}

TEST(Explain, WritesRemarksForEditors) {
  const std::string path = testing::TempDir() + "remarks." + std::to_string(getpid()) + ".yaml";
  EXPECT_EQ(run_cli(programs::all(), {"explain", "gmm", "--remarks", path}).status, 0);
  std::ifstream file(path);
  std::string line;
  int documents = 0, ended = 0, places = 0;
  while (std::getline(file, line)) {
    documents += line == "--- !Passed" || line == "--- !Missed" || line == "--- !Analysis";
    ended += line == "...";
    places += line.starts_with("DebugLoc:        { File: \"") && line.find("gmm.cpp\", Line: ") != std::string::npos;
  }
  EXPECT_GT(documents, 20);
  EXPECT_EQ(documents, ended);
  EXPECT_GT(places, 20);
  std::filesystem::remove(path);
  EXPECT_TRUE(said({"gmm", "--remarks", "-"}).starts_with("--- !"));
}

TEST(Remarks, QuoteWhatNamesContain) {
  cli::Explanation e;
  e.program = "p\"q";
  e.remarks.push_back({"one\nword: \\ 'two' \x01", {"odd \"dir\"/a: b.cpp", 7}});
  EXPECT_EQ(cli::remarks_yaml(e),
            "--- !Analysis\nPass:            loopgrad\nName:            \"remark\"\n"
            "DebugLoc:        { File: \"odd \\\"dir\\\"/a: b.cpp\", Line: 7, Column: 0 }\n"
            "Function:        \"p\\\"q\"\nArgs:\n  - String:          \"one\\nword: \\\\ 'two' \\u0001\"\n...\n");
}

}  // namespace
}  // namespace loopgrad::test
