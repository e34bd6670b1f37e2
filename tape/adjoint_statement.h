// The adjoint of one statement, written in values of the primal program at that statement. Where those values come from
// in the backward sweep (the array itself, a tape, a stack) is not decided here.
#pragma once

#include "dsl/ir/stmt.h"
#include "tape/adjoint_rules.h"

#include <map>
#include <set>

namespace loopgrad::tape {

/// primal array -> adjoint (or tangent) array, for active arrays.
using ArrayMap = std::map<ir::Array, ir::Array>;

struct AdjointOptions {
  bool clear = true;  // an Assign zeroes the adjoint of its target; false when nobody reads that adjoint afterwards
  ir::Expr result;    // an expression for the stored value that is cheaper than recomputing it, or null
};

/// Before -> after, for `A[f] = x[g] * 2`:
/// ```
///   d_x[g] += d_A[f]*2
///   d_A[f] = 0
/// ```
/// `statement` is an Assign or a Reduce with Add (see expand_reductions); anything else, or an inactive target, gives
/// an empty statement. A statement that reads its own target array first copies d_A[f] to a local scalar when needed.
ir::Stmt adjoint_of(const ir::Stmt& statement, const ArrayMap& adjoints, const AdjointOptions& options = {});

/// Whether a `min=` or `max=` takes its operand for the new value, as a condition just before it. Of equal values the
/// last counts, see pull_back() of Min and Max; the value itself is the same either way.
ir::Expr takes_operand(const ir::Reduce& extremum);

/// Rewrites `A op= e` for the given operations, on arrays for which `active` holds, into `A = A op e`, which reads the
/// old value of A explicitly. Statements keep their source lines.
ir::Stmt expand_reductions(const ir::Stmt& body, const std::set<ir::ReduceOp>& ops, const IsActive& active);

}  // namespace loopgrad::tape
