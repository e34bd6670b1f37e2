// Every mistake on the command line: exit status 2, a reason on standard error, nothing on standard output.
#include "tests/cli/run_cli.h"
#include "tools/programs/programs.h"

namespace loopgrad::test {
namespace {

struct Mistake {
  std::vector<std::string> words;
  std::vector<std::string> said;  // each part of the message
};

std::string typed(const Mistake& mistake) {
  std::string text = "loopgrad";
  for (const std::string& word : mistake.words) text += word.empty() ? " ''" : " " + word;
  return text;
}
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << typed(mistake); }

/// What was typed, as a name: letters, digits and '_' only.
std::string name_of_mistake(const testing::TestParamInfo<Mistake>& test) {
  std::string name;
  for (const char c : typed(test.param)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name.substr(0, 100) + "__" + std::to_string(test.index);  // several differ by signs only
}

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, ExitWithTwoAndSayWhy) {
  const CliResult result = run_cli(programs::all(), GetParam().words);
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  for (const std::string& part : GetParam().said) EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    CommandLine, Mistakes,
    testing::Values(
        Mistake{{}, {"no command", "--help"}}, Mistake{{"shwo", "conv1d"}, {"no command 'shwo'", "'show'"}},
        Mistake{{"show"}, {"program"}}, Mistake{{"show", "convld"}, {"no program 'convld'", "did you mean 'conv1d'"}},
        Mistake{{"show", "zzzzzz"}, {"no program 'zzzzzz'", "one of conv1d, matmul"}},
        Mistake{{"show", "conv1d", "--stage", "adjoin"}, {"no stage 'adjoin'", "'adjoint'"}},
        Mistake{{"show", "conv1d", "--stage", "code", "--target", "interpreter"}, {"no generated code"}},
        Mistake{{"show", "conv1d", "--variant", "atomics"}, {"no variant 'atomics'", "'atomic'"}},
        Mistake{{"show", "conv1d", "--stage", "schedule", "--schedule", "split(i)"}, {"number of arguments"}},
        Mistake{{"show", "conv1d", "--stage", "schedule", "--schedule", "reverse(q)"}, {"no loop 'q'"}},
        Mistake{{"show", "conv1d", "--schedule", "reverse(i)", "--target", "cuda"}, {"a schedule is shown"}},
        Mistake{{"show", "recurrence", "--stage", "schedule", "--schedule", "reverse(i)"},
                {"cannot reverse 'i': x[", "is written at recurrence.cpp:"}},
        Mistake{{"emit", "conv1d"}, {"--out"}}, Mistake{{"report", "conv1d"}, {"--out"}},
        Mistake{{"report", "conv1d", "--out", "/proc/none.html"}, {"cannot write '/proc/none.html'"}},
        Mistake{{"explain", "conv1d", "--details=tapes"}, {"no group of details 'tapes'", "'tape'"}},
        Mistake{{"explain", "conv1d", "--remarks", "/proc/none.yaml"}, {"cannot write '/proc/none.yaml'"}},
        Mistake{{"compare", "conv1d", "--plot", "a.svg"}, {"there is none", "--sweep n=1e3..1e6"}},
        Mistake{{"compare", "conv1d", "--sweep", "n"}, {"'n' is no sweep"}},
        Mistake{{"compare", "conv1d", "--sweep", "m=1..4"}, {"no size 'm'", "one of k, n"}},
        Mistake{{"compare", "conv1d", "--sweep", "n=9..4"}, {"goes down"}},
        Mistake{{"compare", "conv1d", "--sweep", "n=1.5..4"}, {"'1.5' in --sweep n=1.5..4 is no whole number"}},
        Mistake{{"compare", "conv1d", "--sweep", "n=1..1e13"}, {"'1e13'"}},
        Mistake{{"compare", "conv1d", "--sweep", "n=1..1e6:100"}, {"100 points, more than 64"}},
        Mistake{{"compare", "conv1d", "--sweep", "n=1..4", "--size", "n=2"}, {"given and swept over"}},
        Mistake{{"emit", "conv1d", "--out", "/proc/none"}, {"cannot make the folder '/proc/none'"}},
        Mistake{{"emit", "conv1d", "--out", "/tmp", "--name", "a-b"}, {"'a-b' is no name in C", "a_b"}},
        Mistake{{"emit", "conv1d", "--out", "/tmp", "--target", "interpreter"}, {"no generated code"}},
        Mistake{{"emit", "conv1d", "--out", "/tmp", "--variant", "naive-tape"}, {"naive tape", "restructured"}},
        Mistake{{"check", "conv1d", "--target", "metal"}, {"no target 'metal'", "interpreter, openmp"}},
        Mistake{{"compare", "conv1d", "--size", "m=3"}, {"no size 'm'", "one of k, n"}},
        Mistake{{"compare", "conv1d", "--size", "n"}, {"'n' is not a size", "n=1000"}},
        Mistake{{"compare", "conv1d", "--size", "n=1e3"}, {"not a whole number", "1e3"}},
        Mistake{{"compare", "conv1d", "--size", "n="}, {"not a whole number"}},
        Mistake{{"compare", "conv1d", "--size", "n=-1"}, {"-1"}},
        Mistake{{"compare", "conv1d", "--size", "n=99999999999999999999"}, {"not a whole number"}},
        Mistake{{"compare", "conv1d", "--size", "n=3,n=4"}, {"twice"}},
        Mistake{{"compare", "conv1d", "--threads", "two"}, {"not a whole number", "two"}},
        Mistake{{"compare", "conv1d", "--threads", "-1"}, {"-1"}},
        Mistake{{"check", "conv1d", "--seed", "x"}, {"--seed"}},
        Mistake{{"compare", "heat2d", "--max-tape-bytes", "-5"}, {"--max-tape-bytes", "'-5'", "512MiB"}},
        Mistake{{"explain", "heat2d", "--max-tape-bytes", "5 loaves"}, {"--max-tape-bytes", "'5 loaves'"}},
        Mistake{{"explain", "heat2d", "--max-tape-bytes", "99999999999EiB"}, {"--max-tape-bytes"}},
        Mistake{{"list", "--json", "/nowhere/at/all.json"}, {"cannot write '/nowhere/at/all.json'"}},
        Mistake{{"fuzz", "--seconds", "0"}, {"--seconds is 0"}}, Mistake{{"fuzz", "conv1d"}, {"conv1d"}},
        Mistake{{"fuzz", "--compiled", "101"}, {"--compiled is 101"}},
        Mistake{{"fuzz", "--without", "same-bit"}, {"same-bit", "did you mean 'same-bits'"}},
        Mistake{
            {"fuzz", "--seconds", "1", "--jobs", "1", "--target", "interpreter", "--features", "/nowhere/at/all.md"},
            {"cannot write '/nowhere/at/all.md'"}},
        Mistake{{"list", "--sise"}, {"--sise"}}, Mistake{{"list", "conv1d"}, {"conv1d"}},
        Mistake{{"compare", "conv1d", "--size", "n=4,,"}, {"'' is not a size"}},
        Mistake{{"compare", "conv1d", "--size", "n=4,"}, {"'' is not a size"}},
        Mistake{{"compare", "conv1d", "--size", ",n=4"}, {"'' is not a size"}},
        Mistake{{"compare", "conv1d", "--size", ""}, {"--size is empty"}},
        Mistake{{"compare", "conv1d", "--size="}, {"--size has no value"}},
        Mistake{{"compare", "conv1d", "--size", "n=4", "k=2"}, {"k=2"}},
        Mistake{{"compare", "conv1d", "--size", "n=4 "}, {"not a whole number"}},
        Mistake{{"compare", "conv1d", "--size", "n=4x"}, {"not a whole number"}},
        Mistake{{"compare", "conv1d", "--size", "n=0x10"}, {"not a whole number"}},
        Mistake{{"compare", "conv1d", "--size", "n=9223372036854775807"}, {"size 'n' is 9223372036854775807"}},
        Mistake{{"explain", "conv1d", "--size", "n=9223372036854775807"}, {"size 'n' is 9223372036854775807"}},
        Mistake{{"check", "conv1d", "--size", "k=-9223372036854775808"}, {"-9223372036854775808"}},
        Mistake{{"explain", "matmul", "--size", "n=1099511627776,m=1099511627776"}, {"error: "}},
        Mistake{{"check", "conv1d", "--target", ""}, {"--target is empty"}},
        Mistake{{"check", "conv1d", "--target="}, {"--target has no value"}},
        Mistake{{"check", "conv1d", "--target", "openmp", "--target", "interpreter"}, {"--target"}},
        Mistake{{"check", "conv1d", "--target", "openmp,interpreter"}, {"no target 'openmp,interpreter'"}},
        Mistake{{"check", "conv1d", "matmul"}, {"matmul"}}, Mistake{{"check", ""}, {"program is empty"}},
        Mistake{{"check", "conv1d", "--seed", ""}, {"--seed is empty"}},
        Mistake{{"check", "conv1d", "--seed", "1 2"}, {"--seed"}},
        Mistake{{"check", "conv1d", "--threads", "2", "--threads", "3"}, {"--threads"}},
        Mistake{{"check", "conv1d", "--threads", "2147483647"}, {"2147483647"}},
        Mistake{{"show", "conv1d", "--schedule", ""}, {"--schedule is empty"}},
        Mistake{{"show", "conv1d", "--variant", ""}, {"--variant is empty"}},
        Mistake{{"compare", "conv1d", "--only", ""}, {"--only is empty"}},
        Mistake{{"compare", "embedding", "--size", "rows=0"}, {"has no contents", "sizes"}},
        Mistake{{"compare", "histogram", "--size", "n=100,bins=0"}, {"'h'", "index -2 is outside of [0, 0)", "--size"}},
        Mistake{{"compare", "histogram", "--size", "n=100,bins=1"}, {"'h'", "index -1 is outside of [0, 1)", "--size"}},
        Mistake{{"compare", "burgers", "--size", "n=0"}, {"'u'", "outside of [0, 0)", "--size"}},
        Mistake{{"list", "--json", ""}, {"--json is empty"}}, Mistake{{"list", "--json="}, {"--json has no value"}},
        Mistake{{"list", "--json"}, {"--json"}}, Mistake{{"list", "list"}, {"list"}}, Mistake{{""}, {"no command ''"}},
        Mistake{{"list", "show", "conv1d"}, {"show"}}, Mistake{{"fuzz", "--seconds", "1s"}, {"--seconds"}}),
    name_of_mistake);

TEST(CommandLine, RefusesTwoProgramsOfOneName) {
  const CliResult result = run_cli({programs::conv1d(), programs::conv1d()}, {"list"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("conv1d"), std::string::npos);
}

TEST(CommandLine, RefusesAnEntryThatRecordsNothing) {
  const CliResult result = run_cli({{.name = "nothing", .summary = "", .build = {}, .sizes = {}}}, {"list"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("'nothing'"), std::string::npos) << result.err;
}

TEST(CommandLine, RefusesAnEntryWithoutASize) {
  ProgramEntry entry = programs::conv1d();
  entry.check_sizes.erase("k");
  const CliResult result = run_cli({entry}, {"check", "conv1d"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("size 'k'"), std::string::npos) << result.err;
}

TEST(CommandLine, HelpIsNoMistake) {
  const CliResult result = run_cli(programs::all(), {"--help"});
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.out.find("compare"), std::string::npos);
  const CliResult version = run_cli(programs::all(), {"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.out.substr(0, 9), "loopgrad ") << version.out;
}

}  // namespace
}  // namespace loopgrad::test
