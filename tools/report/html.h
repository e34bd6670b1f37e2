// Pieces of HTML. What is given as text is escaped; what is given as HTML is not.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace loopgrad::cli::page {

/// For element contents and attribute values.
std::string escaped(std::string_view text);

/// A table whose cells are text. Columns of numbers are aligned right, columns of sentences get room.
class Table {
 public:
  enum class Column { Text, Number, Long };
  explicit Table(std::vector<std::pair<std::string, Column>> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  std::size_t size() const { return rows_.size(); }
  std::string html() const;

 private:
  std::vector<std::pair<std::string, Column>> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A bar of a share of the width, below its label and its value.
std::string bar(const std::string& label, const std::string& value, double share, const std::string& kind = {});

/// Folded away: `summary` is text, `content` HTML.
std::string folded(const std::string& summary, const std::string& content);

/// "1.5 MiB", "3.2 ms" and the like.
std::string time_text(double microseconds);

/// `text` with each {{name}} in it replaced. Throws InternalError for a name that has no value or is not there.
std::string filled(const std::string& text, const std::vector<std::pair<std::string, std::string>>& values);

/// page.html, as it was built in.
extern const char* const page_template;

}  // namespace loopgrad::cli::page
