// Expressions in the printed form.
#pragma once

#include "dsl/ir/expr.h"
#include "tests/support/ir_tokens.h"

#include <optional>
#include <variant>

namespace loopgrad::ir {

/// The names that are visible, innermost last.
class TextScope {
 public:
  using Meaning = std::variant<Symbol, Array>;

  void add(const std::string& name, Meaning meaning) { names_.emplace_back(name, std::move(meaning)); }
  const Meaning* find(const std::string& name) const;
  std::size_t size() const { return names_.size(); }
  void shrink(std::size_t size) { names_.resize(size); }

 private:
  std::vector<std::pair<std::string, Meaning>> names_;
};

/// How tightly what is read must bind: everything, or only products and what binds more.
enum class Reach { All, Product };

/// Reads an expression of a type that its place gives: constants have it, and i32 elements are converted where it is
/// i64. Without a type it is what the expression says: see the printer.
Expr read_expr(TokenReader& in, const TextScope& scope, std::optional<ScalarType> type, Reach reach = Reach::All);

/// The array of that name.
Array read_array(TokenReader& in, const TextScope& scope);
/// "[i, j]", or nothing for an array without dimensions.
std::vector<Expr> read_indices(TokenReader& in, const TextScope& scope);
/// The type that a word names, if it does.
std::optional<ScalarType> type_named(const std::string& word);

}  // namespace loopgrad::ir
