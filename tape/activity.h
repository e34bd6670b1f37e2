// Which arrays carry derivatives: those that depend on a requested input and influence a given output.
#pragma once

#include "dsl/ir/program.h"

#include <set>

namespace loopgrad::tape {

/// Flow-insensitive and per array, hence an over-approximation: an array is *varied* when some statement stores a value
/// that reads a varied array through differentiable operations, *useful* when some useful array (or an output in `of`)
/// is computed from it. Integer and bool arrays are never active.
struct Activity {
  std::set<ir::Array> varied, useful;
  bool active(const ir::Array& array) const { return varied.count(array) && useful.count(array); }
};

/// Arrays that `value` depends on differentiably (not through indices, conditions, casts to integers or floor).
void differentiable_reads(const ir::Expr& value, std::set<ir::Array>& reads);

/// Of a region with a custom gradient, all outputs depend on all inputs.
Activity analyze_activity(const ir::Program& program, const std::vector<ir::Array>& wrt,
                          const std::vector<ir::Array>& of);

}  // namespace loopgrad::tape
