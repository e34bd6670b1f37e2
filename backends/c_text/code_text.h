// Lines of generated code, indented as deep as the braces around them.
#pragma once

#include <loopgrad/types.h>

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>

namespace loopgrad::backend {

/// Text from outside, such as the name of the user's file, as it may stand in a comment of generated code: what could
/// end the comment, or continue it on the next line, is replaced by '_', and so is what no comment needs.
inline std::string comment_text(std::string text) {
  for (char& c : text)
    if (c < ' ' || c > '~' || c == '\\' || c == '*' || c == '?') c = '_';
  return text;
}

class CodeText {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(static_cast<std::size_t>(2 * depth_), ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  template <class F>
  void indented(F&& write_lines) {
    ++depth_;
    write_lines();
    --depth_;
  }

  /// The user's line, where it differs from that of the statement before.
  void comment(const SourceLocation& where) {
    if (!where.known() || where.str() == last_comment_) return;
    last_comment_ = where.str();
    line("// {}", comment_text(last_comment_));
  }

  /// Columns before a line.
  std::size_t indent() const { return static_cast<std::size_t>(2 * depth_); }

  std::string take() { return std::move(text_); }

 private:
  std::string text_, last_comment_;
  int depth_ = 1;  // inside a function
};

}  // namespace loopgrad::backend
