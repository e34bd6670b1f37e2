// Equality of trees, derived from every node's `fields()`.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::ir {

/// Same nodes, same symbols, same arrays (locations and statement ids do not count).
bool equal(const Expr& a, const Expr& b);
bool equal(const std::vector<Expr>& a, const std::vector<Expr>& b);

/// Equal up to a one-to-one renaming of symbols and arrays: what a test means by "the same program".
bool structurally_equal(const Stmt& a, const Stmt& b);
bool structurally_equal(const Program& a, const Program& b);

}  // namespace loopgrad::ir
