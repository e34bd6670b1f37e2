// Index expressions as sums of terms: for simplification and for the question how fast an index moves.
#pragma once

#include "dsl/ir/queries.h"

namespace loopgrad::ir {

/// constant + sum of coefficient * atom. An atom is a variable or any other expression that is not a sum.
struct LinearForm {
  struct Term {
    Expr atom;
    std::int64_t coefficient = 0;  // never 0
  };
  std::vector<Term> terms;  // different atoms, in order of first occurrence
  std::int64_t constant = 0;
};

/// Of an i64 expression.
LinearForm linear_form(const Expr& e);
Expr to_expr(const LinearForm& form);

/// a - b where that is a number for all values of the variables.
std::optional<std::int64_t> distance(const Expr& a, const Expr& b);
inline bool same_value(const Expr& a, const Expr& b) { return distance(a, b) == 0; }

/// d(e)/d(symbol); nullopt when the symbol occurs within an atom other than itself.
std::optional<std::int64_t> coefficient_of(const Expr& e, const Symbol& symbol);

/// Whether the value is at least 0 for all sizes of the program.
bool is_never_negative(const Program& program, const Expr& e);

/// Whether the two elements of one array are different for all values of the variables. Cheap: compares index by index.
bool surely_differ(const std::vector<Expr>& a, const std::vector<Expr>& b);

/// Whether numbers keep elements of one array apart, whatever iterations they are of: as in x[2, i] and x[3, j].
bool are_in_different_planes(const std::vector<Expr>& a, const std::vector<Expr>& b);

/// Whether the expression loads an element of the array that may be this one.
bool may_read(const Expr& e, const Array& array, const std::vector<Expr>& indices);

/// The same with sums collected: `c1 + (c0 - c1)` becomes `c0`, `min(n - 1, c) + 1` becomes `min(n, c + 1)`.
Expr simplify_indices(const Expr& e);
/// Everywhere in a statement: indices, bounds and integer comparisons.
Stmt simplify_indices(const Stmt& s);

}  // namespace loopgrad::ir
