// Interval arithmetic on integer expressions.
#pragma once

#include "dsl/ir/expr.h"

#include <functional>
#include <map>

namespace loopgrad::ir {

/// Inclusive bounds.
struct Range {
  Expr lowest, highest;
};

/// What is known about the leaves of an expression.
struct RangeContext {
  std::map<Symbol, Range> variables;
  std::map<Symbol, Expr> highest = {};  // of variables that are not listed, where no more is known: see highest_of
  /// The range of a variable that is not listed, or of a load; nullopt where nothing is known.
  std::function<std::optional<Range>(const Expr& leaf)> leaf;
  /// The range of `pointer[row + 1] - pointer[row]`, by the load of pointer[row]; nullopt where no more is known of it
  /// than of the two.
  std::function<std::optional<Range>(const Load& first)> row_length;
  /// Whether a variable that bounds may contain is never negative (sizes are).
  std::function<bool(const Symbol&)> non_negative;
};

/// Variables that are not listed are bounds of their own; nothing is known of what is read.
RangeContext ranges_in_variables();

/// Bounds of `e`, as expressions in what the context's ranges are made of; correlations between operands are lost, as
/// always in interval arithmetic. nullopt where no bounds follow.
std::optional<Range> range_of(const Expr& e, const RangeContext& context);

/// An upper bound of `e`, where that follows from less than all of its range: of a minimum one operand is enough.
std::optional<Expr> highest_of(const Expr& e, const RangeContext& context);

/// The most trips that a loop with these bounds makes, where that follows from how far parts of them are apart, in what
/// `is_fixed` accepts: at most 2*r + 1 for `max(i - r, 0)..min(i + r + 1, n)`. nullopt for others, as where the lower
/// bound itself is fixed or data have a part in one.
std::optional<Expr> band_width(const Expr& lower, const Expr& upper, const std::function<bool(const Expr&)>& is_fixed);

/// The smaller (larger) of two integers; `a` itself when both are the same expression.
Expr smaller(const Expr& a, const Expr& b);
Expr larger(const Expr& a, const Expr& b);

/// Positive constants, and maxima with one.
bool surely_positive(const Expr& e);
/// Non-negative constants and variables, and sums, products and maxima of those.
bool surely_non_negative(const Expr& e, const RangeContext& context);

}  // namespace loopgrad::ir
