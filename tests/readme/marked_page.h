// Pages in Markdown whose listings are checked, or written, by the tests. A listing stands below a comment that says
// what it is, in a fence or indented by four spaces:
//
//   <!-- shows FILE -->         its lines follow each other in this file of the repository, apart from a common
//   indentation
//   <!-- shows all of FILE -->  it is the whole file
//   <!-- prints NAME -->        what a program prints: a lesson by its file's name, an executable by its path in the
//   build
//   <!-- show P .. -->          what `loopgrad show P ..` prints; `explain`, `list` and so on likewise
//   <!-- theirs -->             a program for something else than loopgrad, which nobody compiles here
//
// What is printed may be shown in part:
//
//   <!-- show matmul --stage summation | backward | contraction d_a to d_a[i, l] += -->
//   <!-- prints 08_schedules | - | for i_tile to y[j, i] -->
//
// the section of the output (all of it where that is missing or -), and its first and last line, which begin with these
// words (until the end where no last one is given).
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace loopgrad::test {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text);
Lines read_lines(const std::filesystem::path& file);
std::string joined(const Lines& lines);

/// The parts of a text between separators.
Lines parts_of(std::string text, const std::string& separator);

/// What stands between the signs of a comment that is a line of its own, or nothing.
std::string origin_of(const std::string& line);

/// The lines [first, last) of a page, without fences; `fenced` says whether there are any.
struct Listing {
  std::size_t first = 0, last = 0;
  bool fenced = false;
};

/// The listing below the comment in this line, if there is one.
std::optional<Listing> listing_below(const Lines& page, std::size_t comment);

/// The listings that no comment stands above. Fences of other languages than C, C++ and Python need none.
Lines unmarked_listings(const Lines& page);

/// The section and range of an output that the parts of an origin after its first one ask for; empty if there is no
/// such.
Lines part_of(const Lines& output, const Lines& origin);

/// Lines without the indentation that all of them have.
Lines without_indent(Lines lines);

/// Do these lines follow each other in the file, apart from a common indentation?
bool is_shown(const Lines& file, const Lines& listing);

}  // namespace loopgrad::test
