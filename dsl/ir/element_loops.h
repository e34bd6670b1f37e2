// Loops over all elements of an array.
#pragma once

#include "dsl/ir/stmt.h"

#include <functional>
#include <string>
#include <vector>

namespace loopgrad::ir {

/// Loops over all indices within `shape`, the first one outermost, around body(indices). Iterators are called `name0`,
/// `name1`, .. All loops are of one `mode`.
Stmt over_elements(const std::vector<Expr>& shape, const SourceLocation& where,
                   const std::function<Stmt(const std::vector<Expr>&)>& body, const std::string& name = "z",
                   LoopMode mode = LoopMode::Forward);

}  // namespace loopgrad::ir
