// Rewriting reads together with the condition under which they happen.
#pragma once

#include "dsl/ir/rewriter.h"

namespace loopgrad::tape {

/// Asked for every load with the condition (over primal values, or null) that selects, `and`, `or` and ifs put around
/// it: reading the element elsewhere is only allowed under that condition. Returns the replacement, or nullopt to go on
/// with the load's indices.
using GuardedLoad = std::function<std::optional<ir::Expr>(const ir::Expr& load, const ir::Expr& guard)>;

ir::Expr rewrite_loads(const ir::Expr& e, const GuardedLoad& f, const ir::Expr& guard = {});
ir::Stmt rewrite_loads(const ir::Stmt& s, const GuardedLoad& f, const ir::Expr& guard = {});

}  // namespace loopgrad::tape
