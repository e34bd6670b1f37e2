// The table of derivatives. Reverse mode, forward mode and the naive tape all read it: a new operation is one row here.
#pragma once

#include "dsl/ir/expr.h"

#include <functional>

namespace loopgrad::tape {

/// d(op(a))/da times `seed`. `result` is op(a) itself, for rules that reuse it (exp, tanh, sqrt, sigmoid).
/// Null where the derivative is zero everywhere it exists (floor, ceil).
/// At a kink: abs has derivative 0 at 0.
ir::Expr pull_back(const ir::Unary& node, const ir::Expr& result, const ir::Expr& seed);

/// The same for both operands of a binary operation; null where zero.
/// Min and max: on a tie the second operand gets the whole seed, so that `m = max(m, v)` and `m max= v` both follow the
/// last of equal values, and max(x, 0) has the derivative 0 at 0. Not a number counts as the value of no operand but
/// the first.
struct OperandSeeds {
  ir::Expr a, b;
};
OperandSeeds pull_back(const ir::Binary& node, const ir::Expr& result, const ir::Expr& seed);

/// Whether the rule of the operation at the top of `value` reuses its result: only then is that worth asking for.
bool reuses_result(const ir::Expr& value);

/// Whether the derivative of min(a, b) or max(a, b) is that of b: the rule for ties, of expressions and of `min=`,
/// `max=`.
ir::Expr second_counts(ir::BinaryOp op, const ir::Expr& a, const ir::Expr& b);

/// One term of a statement's adjoint: d_array[indices] += value, under all guards.
struct Contribution {
  const ir::Load* target = nullptr;  // the read element that receives the term
  ir::Expr value;
  std::vector<ir::Expr> guards;  // conditions of the selects around the read; all must hold
};

using IsActive = std::function<bool(const ir::Array&)>;

/// The terms that `seed`, the adjoint of `value`, sends to every active read in `value`. Reads of one element under the
/// same guards are merged into one term. The values in the terms are primal expressions at the point of the statement.
/// `result`, when given, is an expression for `value` itself that is cheaper than computing it again.
std::vector<Contribution> contributions(const ir::Expr& value, const ir::Expr& seed, const IsActive& active,
                                        const ir::Expr& result = {});

/// The tangent of `value`, given the tangents of its reads; null when zero. (The transposed use of the same table.)
using TangentOfLoad = std::function<ir::Expr(const ir::Load&)>;  // null when the read is inactive
ir::Expr push_forward(const ir::Expr& value, const TangentOfLoad& tangent);

}  // namespace loopgrad::tape
