#include "tests/readme/marked_page.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

namespace loopgrad::test {
namespace {

const std::string margin = "    ";

bool is_indented(const std::string& line) { return line.starts_with(margin); }
bool is_fence(const std::string& line) { return line.starts_with("```"); }

bool begins(const std::string& line, const std::string& words) {
  return line.compare(std::min(line.find_first_not_of(' '), line.size()), words.size(), words) == 0;
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
  if (ends.size() == 1) return {first, section.end()};
  const auto last = std::find_if(first, section.end(), [&](const auto& x) { return begins(x, ends[1]); });
  if (last == section.end()) return {};
  return {first, last + 1};
}

}  // namespace

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Lines read_lines(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return lines_of(text.str());
}

std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

Lines parts_of(std::string text, const std::string& separator) {
  Lines parts;
  for (std::size_t at; (at = text.find(separator)) != std::string::npos; text.erase(0, at + separator.size()))
    parts.push_back(text.substr(0, at));
  parts.push_back(text);
  return parts;
}

std::string origin_of(const std::string& line) {
  const bool is_comment = line.starts_with("<!-- ") && line.ends_with(" -->");
  return is_comment ? line.substr(5, line.size() - 9) : "";
}

std::optional<Listing> listing_below(const Lines& page, std::size_t comment) {
  std::size_t at = comment + 1;
  while (at < page.size() && page[at].empty()) ++at;
  if (at == page.size()) return std::nullopt;
  if (is_fence(page[at])) {
    const auto end = std::find(page.begin() + static_cast<std::ptrdiff_t>(at) + 1, page.end(), "```");
    if (end == page.end()) return std::nullopt;
    return Listing{at + 1, static_cast<std::size_t>(end - page.begin()), true};
  }
  Listing listing{at, at, false};
  while (listing.last < page.size() && is_indented(page[listing.last])) ++listing.last;
  if (listing.last == listing.first) return std::nullopt;
  return listing;
}

Lines unmarked_listings(const Lines& page) {
  static const std::regex checked("```(|c|cpp|python)");
  Lines found;
  std::string before;  // the last line that says something outside of listings
  for (std::size_t i = 0; i < page.size(); ++i) {
    if (is_fence(page[i])) {
      if (origin_of(before).empty() && std::regex_match(page[i], checked))
        found.push_back(page[std::min(i + 1, page.size() - 1)]);
      while (++i < page.size() && page[i] != "```") {
      }
      before.clear();
    } else if (is_indented(page[i])) {
      if (origin_of(before).empty()) found.push_back(page[i]);
    } else if (!page[i].empty()) {
      before = page[i];
    }
  }
  return found;
}

Lines part_of(const Lines& output, const Lines& origin) {
  const Lines section = section_of(output, origin.size() > 1 ? origin[1] : "");
  return origin.size() > 2 ? range_of(section, origin[2]) : section;
}

Lines without_indent(Lines lines) {
  std::size_t indent = std::string::npos;
  for (const std::string& line : lines) indent = std::min(indent, line.find_first_not_of(' '));
  for (std::string& line : lines) line.erase(0, std::min(indent, line.find_first_not_of(' ')));
  return lines;
}

bool is_shown(const Lines& file, const Lines& listing) {
  const Lines wanted = without_indent(listing);
  for (std::size_t at = 0; !wanted.empty() && at + wanted.size() <= file.size(); ++at) {
    if (!file[at].ends_with(wanted.front())) continue;
    const auto first = file.begin() + static_cast<std::ptrdiff_t>(at);
    if (without_indent({first, first + static_cast<std::ptrdiff_t>(wanted.size())}) == wanted) return true;
  }
  return false;
}

}  // namespace loopgrad::test
