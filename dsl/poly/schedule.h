// Code generation: the instances of affine statements in another order, and isl's AST as IR.
#pragma once

#include "dsl/poly/model.h"

#include <functional>

namespace loopgrad::poly {

/// A statement of the model with the time at which its instances are to be executed.
struct TimedStatement {
  int statement = 0;
  std::vector<ir::Expr> time;  // affine in the statement's iterators; of the same length for all statements
  ir::Stmt body;               // what to run for one instance, in terms of the statement's iterators
};

/// Loops that execute every instance once, in lexicographic order of `time`; instances of one statement at equal times
/// run in any order, different statements in the order of the list. Requires that the domains are exact as far as loop
/// bounds go (`Statement::exact_bounds`); conditions that are not affine belong in `body`. `names[k]` is the name
/// wished for the iterator of time dimension k. Bodies are copied as often as isl splits the domains. Whether the new
/// order is legal is up to the caller. An index of a body with cases or quotients is written as the loop that counts
/// its values, or as the case that holds where it stands, if that is simpler than what was written. Throws BudgetError,
/// also where isl cannot express what it needs.
///
/// **Example:** `dx[i + j] += dy[i]*w[j]` for i < n, j < k at time (i + j, j) becomes
/// `for c0 in 0..n + k - 1: for j in max(0, c0 - n + 1)..min(k, c0 + 1): dx[c0] += dy[c0 - j]*w[j]`.
ir::Stmt code_in_order(const Model& model, const std::vector<TimedStatement>& statements,
                       const std::vector<std::string>& names);

/// Code for one call `statement(arguments)` in isl's AST. `loops[k]` is the iterator of the loop around it that takes
/// each value of schedule dimension k in turn, or null where there is none.
using UserCode = std::function<ir::Stmt(const std::string& statement, const std::vector<ir::Expr>& arguments,
                                        const std::vector<ir::Expr>& loops)>;

/// An isl AST as IR with unit-stride loops. isl calls the iterator of schedule dimension k "ck"; `names[k]` replaces
/// that.
ir::Stmt to_stmt(const isl::ast_node& node, const UserCode& user, const std::vector<std::string>& names,
                 const Context& context);

}  // namespace loopgrad::poly
