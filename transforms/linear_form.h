// Index expressions as sums of terms: for simplification and for the question how fast an index moves.
#pragma once

#include "dsl/ir/queries.h"

namespace loopgrad::transforms {

/// constant + sum of coefficient * atom. An atom is a variable or any other expression that is not a sum.
struct LinearForm {
  struct Term {
    ir::Expr atom;
    std::int64_t coefficient = 0;  // never 0
  };
  std::vector<Term> terms;  // different atoms, in order of first occurrence
  std::int64_t constant = 0;
};

/// Of an i64 expression.
LinearForm linear_form(const ir::Expr& e);
ir::Expr to_expr(const LinearForm& form);

/// a - b where that is a number for all values of the variables.
std::optional<std::int64_t> distance(const ir::Expr& a, const ir::Expr& b);
inline bool same_value(const ir::Expr& a, const ir::Expr& b) { return distance(a, b) == 0; }

/// d(e)/d(symbol); nullopt when the symbol occurs within an atom other than itself.
std::optional<std::int64_t> coefficient_of(const ir::Expr& e, const ir::Symbol& symbol);

/// Whether the value is at least 0 for all sizes of the program.
bool is_never_negative(const ir::Program& program, const ir::Expr& e);

/// Whether the two elements of one array are different for all values of the variables. Cheap: compares index by index.
bool surely_differ(const std::vector<ir::Expr>& a, const std::vector<ir::Expr>& b);

/// Whether the expression loads an element of the array that may be this one.
bool may_read(const ir::Expr& e, const ir::Array& array, const std::vector<ir::Expr>& indices);

/// The same with sums collected: `c1 + (c0 - c1)` becomes `c0`, `min(n - 1, c) + 1` becomes `min(n, c + 1)`.
ir::Expr simplify_indices(const ir::Expr& e);
/// Everywhere in a statement: indices, bounds and integer comparisons.
ir::Stmt simplify_indices(const ir::Stmt& s);

}  // namespace loopgrad::transforms
