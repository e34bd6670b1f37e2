#include "tests/support/ir_tokens.h"

#include <cctype>
#include <sstream>

namespace loopgrad::ir {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// How long the number at `start` is, with a type that follows at once: 12, 0.5, 1e-05, 1f32. `0..n` begins with a 0.
std::size_t number_length(const std::string& s, std::size_t start) {
  std::size_t at = start;
  const auto digits = [&] {
    while (at < s.size() && is_digit(s[at])) ++at;
  };
  digits();
  if (at + 1 < s.size() && s[at] == '.' && is_digit(s[at + 1])) {
    ++at;
    digits();
  }
  if (at + 1 < s.size() && s[at] == 'e' && (is_digit(s[at + 1]) || s[at + 1] == '-' || s[at + 1] == '+')) {
    at += 2;
    digits();
  }
  while (at < s.size() && is_name(s[at])) ++at;
  return at - start;
}

Token token_at(const std::string& s, std::size_t at, int line) {
  if (is_digit(s[at])) return {Token::Kind::Number, s.substr(at, number_length(s, at))};
  if (is_name(s[at])) {
    std::size_t end = at;
    while (end < s.size() && is_name(s[end])) ++end;
    return {Token::Kind::Word, s.substr(at, end - at)};
  }
  for (const char* sign : {"..", "//", "<=", ">=", "==", "!=", "&&", "||", "+=", "*="})
    if (s.compare(at, 2, sign) == 0) return {Token::Kind::Sign, sign};
  if (std::string("+-*/%<>=!()[],:;").find(s[at]) == std::string::npos)
    throw TextError(line, std::string("no token begins with '") + s[at] + "'");
  return {Token::Kind::Sign, std::string(1, s[at])};
}

}  // namespace

std::vector<TextLine> lines_of(const std::string& text) {
  std::vector<TextLine> lines;
  std::istringstream in(text);
  int number = 0, margin = -1;
  for (std::string s; std::getline(in, s);) {
    ++number;
    const std::size_t first = s.find_first_not_of(' ');
    if (first == std::string::npos) continue;
    if (margin < 0) margin = static_cast<int>(first);
    const int spaces = static_cast<int>(first) - margin;
    if (spaces < 0 || spaces % 2) throw TextError(number, "expected an indentation in steps of two spaces");
    TextLine line{number, spaces / 2, {}};
    for (std::size_t at = first; at < s.size();) {
      if (s[at] == ' ') {
        ++at;
        continue;
      }
      line.tokens.push_back(token_at(s, at, number));
      at += line.tokens.back().text.size();
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

const Token& TokenReader::peek(std::size_t ahead) const {
  static const Token end;
  return next_ + ahead < line_.tokens.size() ? line_.tokens[next_ + ahead] : end;
}

Token TokenReader::take() {
  const Token token = peek();
  ++next_;
  return token;
}

bool TokenReader::accept(const std::string& text) {
  if (!is_next(text)) return false;
  ++next_;
  return true;
}

bool TokenReader::accept_all(const std::vector<std::string>& texts) {
  for (std::size_t k = 0; k < texts.size(); ++k)
    if (!is_next(texts[k], k)) return false;
  next_ += texts.size();
  return true;
}

void TokenReader::expect(const std::string& text) {
  if (!accept(text)) fail("'" + text + "'");
}

std::string TokenReader::expect_word(const std::string& what) {
  if (peek().kind != Token::Kind::Word) fail(what);
  return take().text;
}

void TokenReader::expect_end() const {
  if (peek().kind != Token::Kind::End) fail("the end of the line");
}

void TokenReader::fail(const std::string& expected) const {
  const std::string found = peek().kind == Token::Kind::End ? "the end of the line" : "'" + peek().text + "'";
  throw TextError(line_.number, "expected " + expected + ", found " + found);
}

}  // namespace loopgrad::ir
