// The page of `report`: its content, from facts and from programs.
#include "backends/c_text/parts.h"
#include "backends/compile_together.h"
#include "backends/lowering.h"
#include "tests/cli/run_cli.h"
#include "tools/cli/directions.h"
#include "tools/programs/programs.h"
#include "tools/report/html.h"
#include "tools/report/page.h"
#include "tools/report/roofline.h"
#include "tools/report/sweep_plot.h"

#include <loopgrad/error.h>

#include <nlohmann/json.hpp>

#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace loopgrad::test {
namespace {

using nlohmann::ordered_json;
namespace page = cli::page;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

const std::string evil = "<script>alert(\"&'\")</script>";

ordered_json program_facts(const std::string& name) {
  const ordered_json candidate = {{"plan", "gather"}, {"microseconds", 3.0}, {"note", evil}},
                     other = {{"plan", "atomic"}, {"microseconds", 6.0}, {"note", ""}};
  const ordered_json sum = {{"sum", evil},    {"where", "a.cpp:3"}, {"plan", "gather"},
                            {"reason", evil}, {"level", "grid"},    {"candidates", {candidate, other}}};
  const ordered_json part = {
      {"loops", evil}, {"where", "a.cpp:4"}, {"parallel", true},           {"product", false},     {"runs", 2.0},
      {"flops", 4e6},  {"bytes", 1e6},       {"iterations_at_once", 64.0}, {"microseconds", 100.0}};
  const ordered_json loop = {{"loop", evil}, {"where", "a.cpp:4"}, {"parallel", false}, {"reason", evil}};
  const ordered_json none = ordered_json::array();
  return {{"name", name},
          {"array_bytes", 1024.0},
          {"work_bytes", 2048.0},
          {"microseconds", 1500.0},
          {"atomics", 3},
          {"sums", ordered_json::array({sum})},
          {"parts", ordered_json::array({part})},
          {"loops", ordered_json::array({loop})},
          {"kernels", none},
          {"storage", none},
          {"runs", none},
          {"contractions", none}};
}

ordered_json explained_facts(const std::string& variant) {
  const ordered_json saved = {{"value", evil},        {"where", "a.cpp:3"},     {"lines", {"a.cpp:3", "a.cpp:5"}},
                              {"storage", "t[i, j]"}, {"bytes", 3 * 1048576.0}, {"reason", evil},
                              {"how", "saved"},       {"formula", "4*n*n"},     {"written_bytes", 1024.0},
                              {"read_bytes", 2048.0}, {"alternative", evil}};
  ordered_json small = saved;
  small["storage"] = "s[i]";
  small["bytes"] = 1048576.0;
  const ordered_json remark = {{"text", evil}, {"where", "a.cpp:9"}};
  return {{"program", evil},
          {"variant", variant},
          {"target", "openmp"},
          {"sizes", {{"n", 1000}}},
          {"tape", ordered_json::array({saved, small})},
          {"programs", ordered_json::array({program_facts("forward"), program_facts("backward")})},
          {"remarks", ordered_json::array({remark})},
          {"machine", {{"name", "a machine"}, {"flops_per_second", 1e11}, {"bytes_per_second", 1e10}}},
          {"tape_bytes", 4 * 1048576.0},
          {"advice", ordered_json::array({evil})}};
}

ordered_json some_facts() {
  const ordered_json lines = ordered_json::array(
      {ordered_json::array({"for i in 0.." + evil, "a.cpp:3"}), ordered_json::array({"  t[i, j] = 1", "a.cpp:4"})});
  return {{"summary", evil},
          {"explained", ordered_json::array({explained_facts("restructured"), explained_facts("atomic")})},
          {"listings", {{"program", lines}, {"forward", lines}, {"backward", lines}}},
          {"compared", nullptr},
          {"profile", nullptr}};
}

TEST(Page, EscapesWhatItIsGiven) {
  const std::string html = page::page_of(some_facts());
  EXPECT_EQ(count(html, "alert(\"&'\")"), 0);
  EXPECT_EQ(count(html, "<script>"), 1) << "its own";
  EXPECT_GT(count(html, "&lt;script&gt;alert(&quot;&amp;&#39;&quot;)&lt;/script&gt;"), 15);
  EXPECT_EQ(count(html, "{{"), 0);
  EXPECT_EQ(page::escaped("a\x01\tb"), "a \tb");
}

TEST(Page, NeedsNothingElse) {
  const std::string html = page::page_of(some_facts());
  for (const char* from_elsewhere : {"src=", "http://", "https://", "@import", "url("})
    EXPECT_EQ(count(html, from_elsewhere), 0) << from_elsewhere;
}

TEST(Page, HasEverySection) {
  const std::string html = page::page_of(some_facts());
  for (const char* id : {"change", "code", "tape", "sums", "loops", "variants", "more"}) {
    EXPECT_EQ(count(html, "<section id=\"" + std::string(id) + "\">"), 1) << id;
    EXPECT_EQ(count(html, "href=\"#" + std::string(id) + "\""), 1) << id;
  }
  EXPECT_EQ(count(html, "<section"), 7);
  for (const char* tag : {"div", "section", "details", "table", "svg", "span", "ul", "p", "summary"})
    EXPECT_EQ(count(html, "<" + std::string(tag) + ">") + count(html, "<" + std::string(tag) + " "),
              count(html, "</" + std::string(tag) + ">"))
        << tag;
}

TEST(Page, ShowsTheTapeByBytes) {
  const std::string tape = page::tape_section(some_facts());
  EXPECT_EQ(count(tape, "style=\"width:75.00%\""), 1);
  EXPECT_EQ(count(tape, "style=\"width:25.00%\""), 1);
  EXPECT_NE(tape.find("3.0 MiB = 4*n*n"), std::string::npos);
  EXPECT_NE(tape.find("a.cpp:3, a.cpp:5"), std::string::npos);
  EXPECT_NE(page::tiles(some_facts()).find("<b>4.0 MiB</b>"), std::string::npos);
  ordered_json nothing = some_facts();
  nothing["explained"][0]["tape"] = ordered_json::array();
  EXPECT_NE(page::tape_section(nothing).find("Nothing is saved"), std::string::npos);
}

TEST(Page, PutsTheUsersLinesBesideTheCode) {
  const std::string code = page::code_section(some_facts());
  EXPECT_EQ(count(code, "data-line=\"a.cpp:3\"><i>3</i>"), 3) << "of one file: numbers alone";
  EXPECT_EQ(count(code, "<div class=\"tape\""), 3);
  ordered_json facts = some_facts();
  facts["listings"]["program"][1][1] = "b.h:4";
  EXPECT_NE(page::code_section(facts).find("<i>b.h:4</i>"), std::string::npos);
}

TEST(Page, MarksThePlanThatIsTaken) {
  const std::string sums = page::sums_section(some_facts());
  EXPECT_EQ(count(sums, "gather (taken)"), 2);
  EXPECT_EQ(count(sums, "style=\"width:50.00%\""), 2);
  EXPECT_EQ(count(sums, "gather, grid"), 2);
}

TEST(Page, TakesMeasuredTimesWhereThereAreSome) {
  ordered_json facts = some_facts();
  EXPECT_NE(page::loops_section(facts).find("the machine model"), std::string::npos);
  EXPECT_NE(page::tiles(facts).find("estimated for a machine"), std::string::npos);
  facts["profile"] = {{"forward", {777.0}}, {"backward", {888.0}}};
  const ordered_json variant = {
      {"name", "restructured"}, {"forward_ms", 12.5},       {"backward_ms", 25.0},        {"tape_bytes", 1024},
      {"atomics", 0},           {"max_rel_error", nullptr}, {"bitwise_repeatable", true}, {"roofline_fraction", 0.5}};
  ordered_json failed = variant;
  for (auto& [key, value] : failed.items()) value = key == "name" ? ordered_json("naive-tape") : ordered_json(nullptr);
  facts["compared"] = {{"variants", ordered_json::array({failed, variant})},
                       {"roofline", {{"copy_bytes_per_second", 2e10}, {"fma_flops_per_second", 3e11}}}};
  const std::string loops = page::loops_section(facts);
  EXPECT_NE(loops.find("<td class=\"number\">777 us</td><td class=\"number\">100 us</td>"), std::string::npos) << loops;
  EXPECT_NE(loops.find("20 GB/s and 300 GFLOP/s"), std::string::npos);
  EXPECT_NE(page::tiles(facts).find("<b>12.5 ms</b>"), std::string::npos);
  const std::string variants = page::variants_section(facts);
  EXPECT_EQ(count(variants, "<div class=\"bar\">"), 2) << "the one that ran";
  EXPECT_NE(variants.find("50.0 %"), std::string::npos);
}

TEST(Page, DrawsWhatHasWorkAndTime) {
  const std::string svg = page::roofline(
      {{"1", "", "forward", 1e6, 1e6, 10}, {"2", "", "backward", 0, 1e6, 10}, {"3", "", "forward", 1, 1, 0}}, 1e10,
      1e11);
  EXPECT_EQ(count(svg, "<circle"), 1);
  EXPECT_EQ(count(svg, "class=\"roof\""), 1);
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0) << svg;
  EXPECT_EQ(page::roofline({}, 1e10, 1e11), "");
}

TEST(Page, RefusesAnIncompleteTemplate) {
  EXPECT_EQ(page::filled("a {{x}} b {{x}}", {{"x", "1"}}), "a 1 b 1");
  EXPECT_THROW(page::filled("a {{y}}", {{"x", "1"}}), InternalError);
  EXPECT_THROW(page::filled("a", {{"x", "1"}}), InternalError);
}

TEST(SweepPlot, LeavesOutWhatDidNotRun) {
  const auto variant = [](const char* name, const ordered_json& ms) {
    return ordered_json{{"name", name}, {"forward_ms", ms}, {"backward_ms", ms}};
  };
  ordered_json points = ordered_json::array();
  for (const int n : {10, 100, 1000})
    points.push_back(
        {{"sizes", {{"n", n}}},
         {"variants", ordered_json::array({variant("restructured", 0.1 * n),
                                           variant("naive-tape", n < 1000 ? ordered_json(n) : ordered_json())})}});
  const std::string svg = page::sweep_plot({{"program", evil}, {"size", "n"}, {"points", points}});
  EXPECT_EQ(count(svg, "<circle"), 2 * (3 + 2));
  EXPECT_EQ(count(svg, "<script>"), 0);
  EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0) << svg;
  EXPECT_NE(page::sweep_plot({{"program", "p"}, {"size", "n"}, {"points", ordered_json::array()}}).find("</svg>"),
            std::string::npos);
}

TEST(ReportCommand, WritesThePageAndTheFacts) {
  const std::string path = testing::TempDir() + "report." + std::to_string(getpid()) + ".html";
  for (const std::string target : {"openmp", "cuda"}) {
    const CliResult result =
        run_cli(programs::all(), {"report", "gmm", "--target", target, "--out", path, "--json", "-"});
    ASSERT_EQ(result.status, 0) << result.err;
    const auto facts = ordered_json::parse(result.out);
    std::ifstream file(path);
    const std::string html{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_EQ(html, page::page_of(facts)) << "made of the facts and nothing else";
    EXPECT_EQ(facts["explained"].size(), 3u);
    EXPECT_EQ(facts["explained"][0]["variant"], "restructured");
    EXPECT_NE(html.find("1.9 MiB = 4*n*K*d"), std::string::npos);
    EXPECT_NE(html.find("<circle class=\"dot-backward\""), std::string::npos);
    EXPECT_NE(html.find("z_kept[i, k, r]"), std::string::npos);
  }
  std::filesystem::remove(path);
}

TEST(ReportCommand, MeasuresEachPart) {
  const std::string path = testing::TempDir() + "measured." + std::to_string(getpid()) + ".html";
  const CliResult result = run_cli(programs::all(), {"report", "heat2d", "--measure", "--size", "n=300,m=200,T=4",
                                                     "--threads", "2", "--out", path, "--json", "-"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto facts = ordered_json::parse(result.out);
  for (const std::size_t k : {0u, 1u}) {
    const auto& program = facts["explained"][0]["programs"][k];
    const auto& times = facts["profile"][program["name"].get<std::string>()];
    ASSERT_EQ(times.size(), program["parts"].size());
    double all = 0;
    for (const auto& time : times) {
      EXPECT_GE(time.get<double>(), 0);
      all += time.get<double>();
    }
    EXPECT_GT(all, 0);
  }
  EXPECT_EQ(facts["compared"]["variants"].size(), 3u);
  std::filesystem::remove(path);
}

/// Timing changes nothing: the same bits, and a time for each part that ran.
TEST(TimedParts, ComputeTheSame) {
  for (const char* name : {"gat", "lulesh", "cholesky", "mlp"}) {
    const ProgramEntry entry = programs::named(name);
    const cli::Problem problem = cli::make_problem(entry, entry.check_sizes, 1);
    const Gradient gradient = differentiate(problem.program, {.wrt = problem.wrt, .of = problem.of});
    CompileOptions options;
    options.threads = 2;
    options.expected_sizes = problem.sizes;
    std::vector<backend::PartTimes> times;
    const auto timed = backend::compile_together({gradient}, {options}, &times);
    const auto plain = backend::compile_together({gradient}, {options});
    std::vector<std::uint64_t> bits;
    for (const GradientExecutable& executable : {timed.front(), plain.front()}) {
      cli::Arrays initial = problem.inputs;
      initial.insert(problem.incoming.begin(), problem.incoming.end());
      cli::Buffers buffers({gradient.forward, gradient.backward}, problem.sizes, initial, false);
      executable.forward(buffers.arguments(0), problem.sizes);
      executable.backward(buffers.arguments(1), problem.sizes);
      std::vector<std::string> results = problem.of;
      for (const std::string& x : problem.wrt) results.push_back("d_" + x);
      bits.push_back(cli::hash_bits(buffers, results));
    }
    EXPECT_EQ(bits[0], bits[1]) << name;
    Report ignored;
    const auto lowered = backend::lower_gradient(gradient, options, ignored, ignored);
    const std::vector<double> forward = times.front().forward(), backward = times.front().backward();
    EXPECT_EQ(forward.size(), backend::Parts(lowered.forward.program).all().size()) << name;
    EXPECT_EQ(backward.size(), backend::Parts(lowered.backward.program).all().size()) << name;
    const auto ran = [](double seconds) { return seconds > 0; };
    EXPECT_GT(std::count_if(forward.begin(), forward.end(), ran), 1) << name;
    EXPECT_GT(std::count_if(backward.begin(), backward.end(), ran), 1) << name;
    EXPECT_EQ(plain.front().source().find("omp_get_wtime"), std::string::npos);
  }
}

}  // namespace
}  // namespace loopgrad::test
