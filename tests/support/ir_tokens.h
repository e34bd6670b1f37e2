// The printed form of a program, cut into lines and words: what ir_text.h is read from.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace loopgrad::ir {

/// A text that is no program: "line 3: expected ':' after the loop, found 'x'".
struct TextError : std::runtime_error {
  TextError(int line, const std::string& what) : std::runtime_error("line " + std::to_string(line) + ": " + what) {}
};

struct Token {
  enum class Kind { Word, Number, Sign, End };
  Kind kind = Kind::End;
  std::string text;
};

struct TextLine {
  int number = 0, indent = 0;  // counted from 1; in steps of two spaces, less that of the first line
  std::vector<Token> tokens;   // never empty
};

/// All lines that are not blank. The first one may be indented, as in a raw string of a test; the others count from it.
std::vector<TextLine> lines_of(const std::string& text);

/// Reads the tokens of one line from left to right.
class TokenReader {
 public:
  explicit TokenReader(const TextLine& line) : line_(line) {}

  int line() const { return line_.number; }
  const Token& peek(std::size_t ahead = 0) const;
  bool is_next(const std::string& text, std::size_t ahead = 0) const { return peek(ahead).text == text; }
  Token take();
  /// Takes the next token when it is this one.
  bool accept(const std::string& text);
  /// Takes all of these, or none.
  bool accept_all(const std::vector<std::string>& texts);
  void expect(const std::string& text);
  std::string expect_word(const std::string& what);
  void expect_end() const;
  [[noreturn]] void fail(const std::string& expected) const;

 private:
  const TextLine& line_;
  std::size_t next_ = 0;
};

}  // namespace loopgrad::ir
