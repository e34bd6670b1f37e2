// Conditions that are comparisons of linear expressions, joined by "and": most of those in programs. isl gets them as
// rows of a matrix, which costs a tenth of what its piecewise functions do.
#pragma once

#include "dsl/poly/isl_bridge.h"

namespace loopgrad::poly {

/// Collects conjuncts and gives the points that satisfy all of them.
class LinearConstraints {
 public:
  explicit LinearConstraints(const Scope& scope) : scope_(scope) {}

  /// Takes `condition` when it is of that kind; otherwise false, with nothing taken. Also `x < min(a, b)`, which is
  /// `x < a and x < b`, and `x <= floordiv(a, 2)`, which is `2*x <= a`.
  bool add(const ir::Expr& condition);
  bool empty() const { return equalities_.empty() && inequalities_.empty(); }
  isl::set points() const;

 private:
  struct Row {  // a sum that is zero or not negative
    std::vector<std::int64_t> of_iterators, of_parameters;
    std::int64_t constant = 0;
    const ir::Binary* quotient = nullptr;  // a FloorDiv that is still to be added or subtracted, if any
    std::int64_t of_quotient = 0;          // 1 or -1
  };
  using Rows = std::vector<Row>;  // of which all have to hold

  bool add_multiple(const ir::Expr& e, std::int64_t factor, Rows& rows);
  bool add_product(const ir::Expr& e, std::int64_t factor, std::int64_t other, Rows& rows);
  bool add_variable(const ir::Symbol& symbol, std::int64_t factor, Row& row);
  bool add_extremum(const ir::Binary& node, std::int64_t factor, Rows& rows);
  bool resolve_quotients(Rows& rows);
  isl_mat* matrix(const Rows& rows) const;

  const Scope& scope_;
  std::vector<ir::Symbol> parameters_;  // in order of first use
  Rows equalities_, inequalities_;
  std::size_t work_ = 0;  // for the condition that is being added
};

}  // namespace loopgrad::poly
