// Names for parts of a large recorded expression, so that no later stage sees a deep one or a large tree.
//
// A Value is a shared node: after `t = t*t + t` in C++, sixteen times over, one recorded expression of forty nodes
// stands for a tree of a hundred thousand, and after `t = t + x(k)`, a hundred thousand times over, one is as deep as
// that; every stage walks trees. Parts of large trees therefore become local scalars, assigned directly before the
// statement, as a person would have written them.
#pragma once

#include "dsl/ir/stmt.h"

#include <functional>
#include <vector>

namespace loopgrad::ir {

struct SharedValues {
  struct Local {
    Array array;            // a scalar
    Expr value;             // in terms of earlier locals
    Expr guard;             // assigned only where this holds, which is where it is used; null: always
    Expr of;                // the recorded node, where the local always holds its value
    bool is_large = false;  // and computing it again is a lot of work
  };
  std::vector<Local> locals;  // in order of evaluation
  Expr result;
  double largest = 0;  // nodes of the largest expression among them, written out
};

/// The local scalar that holds a node's value already, or null.
using KnownValues = std::function<Expr(const Expr&)>;

/// Splits `value` when its tree has more than `largest_tree` nodes; otherwise returns it unchanged, with no locals.
/// Named are values that are used more than once, and what else would make an expression too deep or too large: what is
/// left takes space in proportion to the nodes recorded. What `select`, `&&` and `||` evaluate on a condition is
/// evaluated on that condition. Sums of integers are collected first (i + i is 2*i), so that indices stay affine, and
/// integers are named only where they are large after that.
SharedValues name_shared_values(const Expr& value, SourceLocation where, const KnownValues& known = {},
                                double largest_tree = 128);

/// Splits `value` for the sake of `wanted` nodes: each of these that is more than a read becomes a local as well,
/// unless it is the root. Trees of less than ExpressionGraph::least_tree nodes are no candidates.
SharedValues name_wanted_values(const Expr& value, SourceLocation where, const KnownValues& known,
                                const std::function<bool(const Expr&)>& wanted);

/// Integer sums collected, for expressions that cannot have locals (shapes, facts); unchanged when small.
Expr collect_large_sums(const Expr& value);

}  // namespace loopgrad::ir
