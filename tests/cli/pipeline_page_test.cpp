// docs/design/pipeline.md shows one stage after the other: its listings are what the commands print.
//
// A listing is an indented block below a comment that says where it is from:
//
//   <!-- show matmul --stage summation | backward | contraction d_a to d_a[i, l] += -->
//
// the command, the section of its output (all of it where that is missing or -), and its first and last line, which
// begin with these words (until the end where no last one is given). LOOPGRAD_UPDATE_GOLDEN=1 writes the listings.
#include "tests/cli/run_cli.h"
#include "tools/programs/programs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace loopgrad::test {
namespace {

using Lines = std::vector<std::string>;

const std::string margin = "    ";

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The parts of a text between separators.
Lines parts_of(std::string text, const std::string& separator) {
  Lines parts;
  for (std::size_t at; (at = text.find(separator)) != std::string::npos; text.erase(0, at + separator.size()))
    parts.push_back(text.substr(0, at));
  parts.push_back(text);
  return parts;
}

bool begins(const std::string& line, const std::string& words) {
  return line.compare(std::min(line.find_first_not_of(' '), line.size()), words.size(), words) == 0;
}

bool is_listed(const std::string& line) { return line.starts_with(margin); }

/// What stands between the comment's signs, or nothing.
std::string origin_of(const std::string& line) {
  const bool is_comment = line.starts_with("<!-- ") && line.ends_with(" -->");
  return is_comment ? line.substr(5, line.size() - 9) : "";
}

Lines section_of(const Lines& output, const std::string& name) {
  if (name.empty() || name == "-") return output;
  auto first = std::find(output.begin(), output.end(), "// " + name);
  if (first == output.end()) return {};
  return {first + 1, std::find(first, output.end(), "")};
}

Lines range_of(const Lines& section, const std::string& range) {
  const Lines ends = parts_of(range, " to ");
  const auto first = std::find_if(section.begin(), section.end(), [&](const auto& x) { return begins(x, ends[0]); });
  auto last = section.end();
  if (ends.size() > 1) last = std::find_if(first, section.end(), [&](const auto& x) { return begins(x, ends[1]); });
  if (ends.size() > 1 && last != section.end()) ++last;
  else if (ends.size() > 1) return {};
  return {first, last};
}

/// What must stand below the comment.
Lines listing_of(const std::string& origin) {
  Lines parts = parts_of(origin, " | ");
  parts.resize(3);
  const CliResult result = run_cli(programs::all(), parts_of(parts[0], " "));
  EXPECT_EQ(result.status, 0) << origin << "\n" << result.err;
  Lines lines = range_of(section_of(lines_of(result.out), parts[1]), parts[2]);
  EXPECT_FALSE(lines.empty()) << origin << ": there is no such part in\n" << result.out;
  if (lines.empty()) return lines;
  const std::size_t indent = lines.front().find_first_not_of(' ');
  for (std::string& line : lines)
    line = margin + line.substr(std::min({indent, line.find_first_not_of(' '), line.size()}));
  return lines;
}

Lines read_page() {
  std::ifstream page(LOOPGRAD_DOCS "/design/pipeline.md");
  std::stringstream text;
  text << page.rdbuf();
  return lines_of(text.str());
}

/// The page with its listings as the commands print them now.
Lines made_again(const Lines& page, std::size_t& listings) {
  Lines made;
  for (std::size_t i = 0; i < page.size(); ++i) {
    made.push_back(page[i]);
    const std::string origin = origin_of(page[i]);
    if (origin.empty()) continue;
    ++listings;
    made.push_back("");
    for (const std::string& line : listing_of(origin)) made.push_back(line);
    while (i + 1 < page.size() && (page[i + 1].empty() || is_listed(page[i + 1]))) ++i;
    made.push_back("");
  }
  return made;
}

TEST(PipelinePage, ShowsWhatTheCommandsPrint) {
  const Lines page = read_page();
  std::size_t listings = 0;
  const Lines made = made_again(page, listings);
  EXPECT_GE(listings, 8u) << "from the program to its code";
  if (std::getenv("LOOPGRAD_UPDATE_GOLDEN")) {
    std::ofstream out(LOOPGRAD_DOCS "/design/pipeline.md");
    for (const std::string& line : made) out << line << "\n";
    return;
  }
  EXPECT_EQ(fmt::format("{}", fmt::join(page, "\n")), fmt::format("{}", fmt::join(made, "\n")))
      << "LOOPGRAD_UPDATE_GOLDEN=1 writes the listings again";
}

TEST(PipelinePage, HasNoListingThatIsWrittenByHand) {
  const Lines page = read_page();
  std::string before;  // the last line that says something outside of listings
  for (const std::string& line : page) {
    if (is_listed(line)) {
      EXPECT_FALSE(origin_of(before).empty() && !line.starts_with(margin + "program -> ") &&
                   !line.starts_with(margin + "dsl/ "))
          << line;
    } else if (!line.empty()) {
      before = line;
    }
  }
}

}  // namespace
}  // namespace loopgrad::test
