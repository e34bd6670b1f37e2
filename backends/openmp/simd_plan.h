// Which loops may run in vector lanes.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/ir/queries.h"

#include <map>
#include <optional>
#include <set>

namespace loopgrad::backend {

/// C++ variables that a sequential loop reduces into, by operation.
using SimdReductions = std::map<ir::ReduceOp, std::vector<ir::Array>>;

/// Whether the iterations of a loop may run side by side: straight-line code and branches that mostly move through
/// memory one element at a time; and the loop is parallel, or its iterations share nothing but scalars that they reduce
/// into (numbers of 32 or 64 bits, in an order of the compiler's choice that is the same in every run). Then the order
/// of the
/// iterations is free too. nullopt otherwise.
std::optional<SimdReductions> plan_simd(const ir::For& loop, const std::set<ir::Array>& aliased);

std::set<ir::Symbol> symbols_in(const ir::Expr& e);

}  // namespace loopgrad::backend
