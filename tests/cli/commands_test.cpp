// What each command prints and writes.
#include "tests/cli/run_cli.h"
#include "tools/programs/programs.h"

#include <loopgrad/error.h>
#include <loopgrad/program.h>

#include <nlohmann/json.hpp>

#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace loopgrad::test {
namespace {

using nlohmann::ordered_json;

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

TEST(RunCommand, ReturnsWhatTheCommandPrints) {
  const CommandOutput output = run_command({"show", "conv1d"}, programs::all());
  EXPECT_EQ(output.status, 0);
  EXPECT_EQ(output.text, run_cli(programs::all(), {"show", "conv1d"}).out);
  EXPECT_EQ(output.json, run_cli(programs::all(), {"show", "conv1d", "--json", "-"}).out);
  try {
    run_command({"show", "conv9d"}, programs::all());
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_EQ(error.code(), ErrorCode::BadInput);
    EXPECT_NE(error.hint().find("conv1d"), std::string::npos);
  }
}

TEST(Show, PrintsEveryStage) {
  for (const std::string stage : {"program", "adjoint", "summation", "loops", "schedule", "code"}) {
    const CliResult result = run_cli(programs::all(), {"show", "recurrence", "--stage", stage});
    EXPECT_EQ(result.status, 0) << stage << result.err;
    EXPECT_NE(result.out.find("x"), std::string::npos) << stage;
    if (stage == "adjoint") {
      EXPECT_NE(result.out.find("d_a"), std::string::npos);
    }
  }
}

TEST(Show, PlansForTheSizesThatAreGiven) {
  const auto shown = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"show", "conv1d", "--stage", "summation"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(programs::all(), arguments);
  };
  const CliResult usual = shown({}), small = shown({"--size", "n=3,k=3"});
  EXPECT_EQ(small.status, 0) << small.err;
  EXPECT_NE(usual.out, small.out) << "as for explain";
  EXPECT_EQ(shown({"--size", "m=3"}).status, 2);
}

TEST(Show, PrintsTheLoopsOfASchedule) {
  const CliResult result = run_cli(programs::all(), {"show", "matmul", "--stage", "schedule", "--schedule",
                                                     "split(i, 32)", "--backward-schedule", "split(j#2, 16)"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("for i_tile in 0.."), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("for j_tile in 0.."), std::string::npos) << result.out;
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

TEST(Compare, SweepsOverASizeAndDrawsIt) {
  const std::string plot = testing::TempDir() + "sweep." + std::to_string(getpid()) + ".svg";
  const CliResult result = run_cli(programs::all(), {"compare", "conv1d", "--target", "interpreter", "--size", "k=3",
                                                     "--sweep", "n=10..40:3", "--plot", plot});
  EXPECT_EQ(result.status, 0) << result.err;
  std::ifstream svg(plot), data(plot.substr(0, plot.size() - 4) + ".json");
  const std::string drawn{std::istreambuf_iterator<char>(svg), std::istreambuf_iterator<char>()};
  EXPECT_NE(drawn.find("<svg xmlns"), std::string::npos);
  const auto json = ordered_json::parse(data);
  EXPECT_EQ(json["size"], "n");
  ASSERT_EQ(json["points"].size(), 3u);
  EXPECT_EQ(json["points"][1]["sizes"]["n"], 20);
  EXPECT_EQ(json["points"][1]["sizes"]["k"], 3);
  for (const auto& point : json["points"]) {
    ASSERT_EQ(point["variants"].size(), 3u);
    for (const auto& variant : point["variants"]) {
      const std::string dot = variant["name"].get<std::string>() + " forward: ";
      EXPECT_NE(drawn.find(dot), std::string::npos);
      EXPECT_GT(variant["forward_ms"].get<double>(), 0);
    }
  }
  std::filesystem::remove(plot);
}

TEST(Compare, ComparesOnTheInterpreterAtSmallSizes) {
  const CliResult result = run_cli(programs::all(), {"compare", "softmax", "--target", "interpreter"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("restructured"), std::string::npos);
}

TEST(Compare, SaysWhyAVariantHasNoFigures) {
  const CliResult result = run_cli(programs::all(), {"compare", "heat2d", "--target", "interpreter", "--only",
                                                     "restructured", "--max-tape-bytes", "1", "--json", "-"});
  EXPECT_EQ(result.status, 0) << result.err;
  const auto row = ordered_json::parse(result.out)["variants"][0];
  EXPECT_TRUE(row["forward_ms"].is_null());
  EXPECT_NE(row["failure"].get<std::string>().find("more than max_tape_bytes = 1"), std::string::npos) << row;
}

/// One input `x`, one output `y`, both of f64 and n elements.
template <class Body>
ProgramEntry elementwise(const std::string& name, std::vector<double> contents, Body&& body) {
  ProgramEntry entry{
      .name = name, .summary = "", .build = {}, .sizes = {{"n", static_cast<std::int64_t>(contents.size())}}};
  entry.build = [name, body] {
    ProgramBuilder p(name);
    auto n = p.size("n");
    auto x = p.input<double>("x", {n});
    auto y = p.output<double>("y", {n});
    for (auto i : p.loop("i", 0, n)) body(p, x, y, i);
    return p.build();
  };
  entry.fill = [contents](const Sizes&, std::uint64_t, InputArrays& arrays) {
    for (std::size_t i = 0; i < contents.size(); ++i) arrays.at("x").set(static_cast<std::int64_t>(i), contents[i]);
  };
  return entry;
}

CliResult check_interpreted(const ProgramEntry& entry, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"check", entry.name, "--target", "interpreter"};
  words.insert(words.end(), more.begin(), more.end());
  return run_cli({entry}, words);
}

TEST(Check, LetsForwardModeDecideAtKinksAndJumps) {
  using A = const ArrayHandle&;
  using V = const Value&;
  const std::vector<ProgramEntry> programs = {
      elementwise("relu", {-1, 0, 0, 2}, [](auto&, A x, A y, V i) { y(i) = max(0, x(i)); }),
      elementwise("kinks_that_cancel", {0, 0.5}, [](auto&, A x, A y, V i) { y(i) = max(0, x(i)) + min(0, x(i)); }),
      elementwise("staircase", {0, 1, 2, 3}, [](auto&, A x, A y, V i) { y(i) = floor(x(i)); }),
      elementwise("branch", {1, 1, 4}, [](ProgramBuilder& p, A x, A y, V i) {
        p.when(x(i) >= 1, [&] { y(i) = 5 * x(i); }).otherwise([&] { y(i) = x(i); });
      })};
  for (const ProgramEntry& entry : programs) {
    const CliResult text = check_interpreted(entry);
    EXPECT_EQ(text.status, 0) << entry.name << "\n" << text.out << text.err;
    EXPECT_NE(text.out.find("there forward mode decides"), std::string::npos) << text.out;
    const auto json = ordered_json::parse(check_interpreted(entry, {"--json", "-"}).out);
    EXPECT_GT(json["kinks"].get<int>(), 0);
    EXPECT_EQ(json["ok"], true);
  }
  const CliResult smooth = check_interpreted(
      elementwise("smooth", {0, 1, 2}, [](auto&, A x, A y, V i) { y(i) = x(i) * x(i); }), {"--json", "-"});
  EXPECT_EQ(ordered_json::parse(smooth.out)["kinks"], 0);
}

/// stop(x) x has the derivative x, and the difference 2 x.
TEST(Check, LetsForwardModeDecideWhereGradientsStop) {
  const ProgramEntry entry = elementwise(
      "stopped", {0.5, 1, -2},
      [](auto&, const ArrayHandle& x, const ArrayHandle& y, const Value& i) { y(i) = x(i) * stop_gradient(x(i)); });
  const CliResult text = check_interpreted(entry);
  EXPECT_EQ(text.status, 0) << text.out << text.err;
  EXPECT_NE(text.out.find("Differences see through stop_gradient along 5 of 5 directions"), std::string::npos)
      << text.out;
  const auto json = ordered_json::parse(check_interpreted(entry, {"--json", "-"}).out);
  EXPECT_EQ(json["stopped"], 5);
  EXPECT_EQ(json["kinks"], 0);
  EXPECT_EQ(json["ok"], true);
}

/// The slope of x + 1e-9 floor(1e9 x) is 2 to any difference and 1 to the rules: as if a rule were wrong everywhere.
TEST(Check, FindsARuleThatDisagreesWithDifferencesEverywhere) {
  const CliResult result = check_interpreted(
      elementwise("wrong", {0, 1, -0.3}, [](auto&, const ArrayHandle& x, const ArrayHandle& y, const Value& i) {
        y(i) = x(i) + 1e-9 * floor(1e9 * x(i));
      }));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("MISMATCH"), std::string::npos) << result.out << result.err;
}

/// y = x - mean(x) summed with equal weights has the gradient zero: what is left are roundings of terms of size one.
TEST(Check, MeasuresAGradientThatCancelsByItsTerms) {
  for (const bool single : {false, true}) {
    ProgramEntry entry{.name = "cancelled", .summary = "", .build = {}, .sizes = {{"n", 37}}};
    entry.build = [single] {
      ProgramBuilder p("cancelled");
      const ScalarType type = single ? ScalarType::F32 : ScalarType::F64;
      auto n = p.size("n");
      auto x = p.input(type, "x", {n});
      auto total = p.output(type, "total", {});
      auto mean = p.local(type, "mean", {});
      auto e = p.local(type, "e", {n});
      auto sum = p.local(type, "sum", {});
      mean() = 0;
      for (auto i : p.loop("i", 0, n)) mean() += x(i) / 37.0;
      sum() = 0;
      for (auto i : p.loop("i", 0, n)) {
        e(i) = exp(x(i) - mean());
        sum() += e(i);
      }
      total() = 0;
      for (auto i : p.loop("i", 0, n)) total() += e(i) / sum();  // one, whatever x is
      return p.build();
    };
    const CliResult result = run_cli({entry}, {"check", "cancelled"});
    EXPECT_EQ(result.status, 0) << result.out << result.err;
  }
}

/// A compiler that miscompiles: it makes another number of the first constant 2.5.
class WrongCompiler {
 public:
  explicit WrongCompiler(const std::string& by) : folder_(testing::TempDir() + "wrong_compiler_" + by + "/") {
    std::filesystem::create_directories(folder_);
    std::ofstream script(folder_ + "c++");
    script << "#!/bin/bash\nfor word in \"$@\"; do\n  case \"$word\" in *.cpp) sed -i 's/2\\.5/" << by
           << "/g' \"$word\";; esac\ndone\nexec c++ \"$@\"\n";
    script.close();
    std::filesystem::permissions(folder_ + "c++", std::filesystem::perms::owner_all);
    setenv("LOOPGRAD_CXX", (folder_ + "c++").c_str(), 1);
    if (const char* cache = std::getenv("LOOPGRAD_CACHE_DIR")) cache_ = cache;
    setenv("LOOPGRAD_CACHE_DIR", (folder_ + "cache").c_str(), 1);
  }
  ~WrongCompiler() {
    unsetenv("LOOPGRAD_CXX");
    if (cache_) setenv("LOOPGRAD_CACHE_DIR", cache_->c_str(), 1);
    else unsetenv("LOOPGRAD_CACHE_DIR");
    std::filesystem::remove_all(folder_);
  }

 private:
  std::string folder_;
  std::optional<std::string> cache_;
};

TEST(Check, FindsAGradientThatIsWrongByLittleAlsoWhereItHasAKink) {
  const ProgramEntry entry =
      elementwise("scaled", {0, 1, 2}, [](auto&, const ArrayHandle& x, const ArrayHandle& y, const Value& i) {
        y(i) = max(0, x(i)) * x(i) + 2.5 * x(i) + max(0, 3 * x(i));
      });
  const std::vector<std::string> words = {"check", "scaled", "--target", "openmp"};
  {
    const WrongCompiler right("2.5");
    const CliResult result = run_cli({entry}, words);
    EXPECT_EQ(result.status, 0) << result.out << result.err;
  }
  const WrongCompiler wrong("2.50001");
  const CliResult result = run_cli({entry}, words);
  EXPECT_EQ(result.status, 1) << result.out << result.err;
  EXPECT_NE(result.out.find("MISMATCH"), std::string::npos) << result.out;
}

/// Not the gradient's fault, and so not called that of an input.
TEST(Check, NamesTheResultThatIsNotFiniteItself) {
  ProgramEntry entry{.name = "beyond", .summary = "", .build = {}, .sizes = {{"n", 3}}};
  entry.build = [] {
    ProgramBuilder p("beyond");
    auto n = p.size("n");
    auto x = p.input<double>("x", {n});
    auto y = p.output<double>("y", {n});
    for (auto i : p.loop("i", 0, n)) y(i) = exp(1000.0 * cast<double>(i) + x(i));
    return p.build();
  };
  const CliResult result = run_cli({entry}, {"check", "beyond", "--target", "interpreter"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("the program's own result 'y' is not finite at element 1"), std::string::npos)
      << result.out << result.err;
}

/// The factor 1e60 is no f32.
TEST(Check, NamesTheArrayWhoseGradientIsNotFinite) {
  ProgramEntry entry{.name = "steep", .summary = "", .build = {}, .sizes = {{"n", 3}}};
  entry.build = [] {
    ProgramBuilder p("steep");
    auto n = p.size("n");
    auto x = p.input<float>("x", {n});
    auto y = p.output<float>("y", {n});
    for (auto i : p.loop("i", 0, n)) y(i) = 1e30f * (1e30f * x(i));
    return p.build();
  };
  entry.fill = [](const Sizes&, std::uint64_t, InputArrays& arrays) {
    for (std::int64_t i = 0; i < 3; ++i) arrays.at("x").set(i, 1e-25);
  };
  const CliResult result = run_cli({entry}, {"check", "steep", "--target", "openmp"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("the gradient by 'x' is not finite at element 0"), std::string::npos)
      << result.out << result.err;
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

/// Half of the table has no values, and nobody reads it. Where its other half is summed up by partial results, these
/// are of the whole table.
TEST(Check, LetsPartialResultsEndInElementsThatHaveNoValue) {
  for (const bool largest : {false, true}) {
    const auto build = [largest] {
      ProgramBuilder p("half_a_table");
      auto n = p.size("n"), m = p.size("m");
      auto idx = p.input<int>("idx", {n});
      auto x = p.input<double>("x", {n});
      auto y = p.output<double>("y", {m});
      auto t = p.local<double>("t", {2 * m});
      p.in_range(idx, 0, 2 * m);
      for (auto e : p.loop("e", 0, m)) t(e) = -5.0;
      for (auto i : p.loop("i", 0, n))
        p.when(idx(i) < m, [&] {
          if (largest) t(idx(i)).max_with(x(i) * x(i));
          else t(idx(i)) += x(i) * x(i);
        });
      for (auto e : p.loop("e", 0, m)) y(e) = t(e) * t(e);
      return p.build();
    };
    const ProgramEntry entry{
        .name = "half_a_table", .summary = "", .build = build, .sizes = {{"n", 3000}, {"m", 5}}, .check_sizes = {}};
    const CliResult result = run_cli({entry}, {"check", "half_a_table", "--elements", "0"});
    EXPECT_EQ(result.status, 0) << result.out << result.err;
    EXPECT_NE(result.out.find("gpu mapping  restructured"), std::string::npos) << result.out;
  }
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

TEST(Emit, WritesTwoFilesAndLeavesThemAloneWhenTheyWouldBeTheSame) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / ("emit." + std::to_string(getpid()));
  for (const std::string target : {"openmp", "cuda"}) {
    const std::vector<std::string> words = {"emit",          "conv1d", "--target", target,   "--out",
                                            folder.string(), "--name", "c1",       "--json", "-"};
    const auto json = ordered_json::parse(run_cli(programs::all(), words).out);
    const fs::path source = json["source"].get<std::string>(), header = json["header"].get<std::string>();
    EXPECT_EQ(source.filename(), target == "cuda" ? "c1.cu" : "c1.cpp");
    ASSERT_TRUE(fs::exists(source) && fs::exists(header));
    std::ifstream file(header);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_NE(text.find("int c1_forward(int64_t n_, int64_t k_, const float* x_,"), std::string::npos) << text;
    const auto before = fs::last_write_time(source);
    EXPECT_EQ(run_cli(programs::all(), words).status, 0);
    EXPECT_EQ(fs::last_write_time(source), before);
  }
  fs::remove_all(folder);
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
  EXPECT_EQ(json["not_finite"].get<int>(), 0);
  EXPECT_TRUE(json["given_up"].empty());
}

TEST(Fuzz, SaysWhatWasNotCompared) {
  const CliResult result =
      run_cli(programs::all(), {"fuzz", "--count", "2", "--seed", "7", "--target", "interpreter", "--jobs", "1"});
  EXPECT_NE(result.out.find("2 random programs from seed 7: 0 refused, 0 not finite, "), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find(" without a derivative, 0 given up, 0 compiled, "), std::string::npos) << result.out;
}

TEST(Fuzz, SplitsTheWorkAmongProcesses) {
  const CliResult result = run_cli(programs::all(), {"fuzz", "--count", "6", "--seed", "7", "--target", "interpreter",
                                                     "--jobs", "2", "--json", "-"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(ordered_json::parse(result.out)["programs"].get<int>(), 6);
}

}  // namespace
}  // namespace loopgrad::test
