// README.md and the pages of docs/: their listings are programs that are compiled, and what programs and commands print
// (marked_page.h says how they are marked), and their links lead somewhere. LOOPGRAD_UPDATE_GOLDEN=1 writes what is
// printed.
#include "tests/cli/run_cli.h"
#include "tests/readme/marked_page.h"
#include "tools/programs/programs.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

namespace loopgrad::test {
namespace {

namespace fs = std::filesystem;

const fs::path root = LOOPGRAD_ROOT;

std::string run_program(const std::string& command) {
  std::string text;
  std::FILE* pipe = popen(("LOOPGRAD_CACHE_DIR='" LOOPGRAD_TEST_CACHE "' " + command).c_str(), "r");
  std::array<char, 4096> part;
  for (std::size_t n; pipe != nullptr && (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    text.append(part.data(), n);
  const int status = pipe == nullptr ? -1 : pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command << "\n" << text;
  return text;
}

/// The Python that lessons are run with, which the tests of the Python package say; empty where there is none, or no
/// PyTorch in it, which is a failure where both must be.
std::string python_with_torch() {
  const char* python = std::getenv("LOOPGRAD_PAGES_PYTHON");
  if (python == nullptr) return "";
  const std::string command = "'" + std::string(python) + "'";
  if (std::system(
          (command + " -c 'import importlib.util as i, sys; sys.exit(i.find_spec(\"torch\") is None)'").c_str()) == 0)
    return command;
  EXPECT_EQ(std::getenv("LOOPGRAD_REQUIRE_PYTHON"), nullptr) << command << " has no PyTorch";
  return "";
}

/// Where `prints NAME` is from; empty where that is not built.
std::string command_of(const std::string& name) {
  if (name.starts_with("examples/")) return LOOPGRAD_HAS_EXAMPLES ? "'" LOOPGRAD_BUILD "/" + name + "'" : "";
  if (!name.ends_with(".py")) return "'" LOOPGRAD_LESSONS "' " + name;
  const std::string python = python_with_torch();
  return python.empty() ? "" : python + " '" + (root / "docs/lessons" / name).string() + "'";
}

/// What a lesson prints, which is run once.
const Lines& printed_by(const std::string& command) {
  static std::map<std::string, Lines> outputs;
  const auto [it, is_new] = outputs.try_emplace(command);
  if (is_new) it->second = lines_of(run_program(command));
  return it->second;
}

/// What must stand below a comment, where `listing` stands now.
Lines wanted_below(const std::string& origin, const Lines& listing) {
  const Lines parts = parts_of(origin, " | ");
  Lines words = parts_of(parts[0], " ");
  if (words[0] == "theirs") return listing;
  if (words[0] == "shows") {
    const bool is_whole = words.size() == 4 && words[1] == "all" && words[2] == "of";
    const Lines file = read_lines(root / words.back());
    EXPECT_TRUE(is_whole || words.size() == 2) << origin;
    EXPECT_TRUE(is_whole || is_shown(file, listing)) << words.back() << " has no such lines:\n" << joined(listing);
    return is_whole ? file : listing;
  }
  Lines output;
  if (words[0] == "prints") {
    const std::string command = command_of(words.back());
    if (command.empty()) return listing;
    output = printed_by(command);
  } else {
    const CliResult result = run_cli(programs::all(), words);
    EXPECT_EQ(result.status, 0) << origin << "\n" << result.err;
    output = lines_of(result.out);
  }
  Lines part = without_indent(part_of(output, parts));
  while (!part.empty() && part.back().empty()) part.pop_back();
  EXPECT_FALSE(part.empty()) << origin << ": there is no such part in\n" << joined(output);
  return part;
}

/// The page with its listings as they must be.
Lines made_again(const Lines& page) {
  Lines made;
  for (std::size_t i = 0; i < page.size(); ++i) {
    made.push_back(page[i]);
    const std::string origin = origin_of(page[i]);
    if (origin.empty()) continue;
    const std::optional<Listing> at = listing_below(page, i);
    EXPECT_TRUE(at) << "no listing stands below " << page[i];
    if (!at) continue;
    const auto line = [&](std::size_t n) { return page.begin() + static_cast<std::ptrdiff_t>(n); };
    made.insert(made.end(), line(i + 1), line(at->first));
    for (const std::string& text : wanted_below(origin, {line(at->first), line(at->last)}))
      made.push_back(at->fenced ? text : "    " + text);
    i = at->last - 1;
  }
  return made;
}

std::vector<std::string> all_pages() {
  std::vector<std::string> pages = {"README.md", "CONTRIBUTING.md", "bench/README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(fs::relative(entry.path(), root).string());
  std::sort(pages.begin(), pages.end());
  return pages;
}

std::vector<std::string> marked_pages() {
  std::vector<std::string> pages = all_pages();
  std::erase_if(pages, [](const std::string& page) {
    const Lines lines = read_lines(root / page);
    return std::none_of(lines.begin(), lines.end(), [](const auto& line) { return !origin_of(line).empty(); });
  });
  return pages;
}

class Pages : public testing::TestWithParam<std::string> {};

TEST_P(Pages, ShowWhatIsCompiledAndPrinted) {
  const Lines page = read_lines(root / GetParam());
  const Lines made = made_again(page);
  if (std::getenv("LOOPGRAD_UPDATE_GOLDEN")) std::ofstream(root / GetParam()) << joined(made);
  else EXPECT_EQ(joined(page), joined(made)) << "LOOPGRAD_UPDATE_GOLDEN=1 writes again what is printed";
}

INSTANTIATE_TEST_SUITE_P(All, Pages, testing::ValuesIn(marked_pages()), [](const auto& page) {
  return std::regex_replace(page.param.substr(0, page.param.size() - 3), std::regex("[^A-Za-z0-9]"), "_");
});

TEST(PageRules, ListingsThatTheTestsCanCheckAreChecked) {
  std::vector<std::string> pages = marked_pages();
  std::erase_if(pages, [](const std::string& page) {
    return !page.starts_with("docs/lessons/") && page != "docs/coming_from.md" && page != "docs/gallery.md" &&
           page != "docs/design/pipeline.md";
  });
  EXPECT_GE(pages.size(), 3u);
  for (const std::string& page : pages)
    for (const std::string& line : unmarked_listings(read_lines(root / page)))
      EXPECT_TRUE(line.starts_with("    program -> ") || line.starts_with("    dsl/ ")) << page << ": " << line;
}

TEST(PageRules, EachLessonHasAPageThatShowsWhatItPrints) {
  for (const auto& entry : fs::directory_iterator(root / "docs/lessons")) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".py") continue;
    const std::string ending = entry.path().extension() == ".py" ? ".py" : "";
    const std::string mark = "<!-- prints " + entry.path().stem().string() + ending;
    const Lines page = read_lines(fs::path(entry.path()).replace_extension(".md"));
    EXPECT_TRUE(std::any_of(page.begin(), page.end(), [&](const auto& line) { return line.starts_with(mark + " "); }))
        << mark;
  }
}

TEST(PageRules, TheReadmeIsShort) { EXPECT_LE(read_lines(root / "README.md").size(), 200u); }

/// How a heading is called in a link.
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(c));
    else if (c == ' ') anchor += '-';
  }
  return anchor;
}

std::set<std::string> anchors_of(const Lines& page) {
  std::set<std::string> anchors;
  for (const std::string& line : page)
    if (line.starts_with("#")) anchors.insert(anchor_of(line.substr(std::min(line.find(' ') + 1, line.size()))));
  return anchors;
}

TEST(PageRules, LinksLeadSomewhere) {
  static const std::regex fence("\\n```[^]*?\n```"), link(R"(\]\(([^)\s#]*)(?:#([^)\s]*))?\))");
  for (const std::string& page : all_pages()) {
    const std::string text = std::regex_replace(joined(read_lines(root / page)), fence, "");
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      const std::string target = (*it)[1], anchor = (*it)[2];
      if (target.find("://") != std::string::npos) continue;
      const fs::path path = target.empty() ? root / page : (root / page).parent_path() / target;
      EXPECT_TRUE(fs::exists(path)) << page << " links " << target;
      const bool leads_there = anchor.empty() || anchors_of(read_lines(path)).count(anchor) > 0;
      EXPECT_TRUE(leads_there) << page << " links " << target << "#" << anchor;
    }
  }
}

}  // namespace
}  // namespace loopgrad::test
