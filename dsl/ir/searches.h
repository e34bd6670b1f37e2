// Loops that look for the last iteration for which something holds.
#pragma once

#include "dsl/ir/program.h"

#include <optional>

namespace loopgrad::ir {

/// `for k in ..: match max= select(condition, k, otherwise)` with a scalar `match`, which the condition does not read.
struct Search {
  const Reduce* sum = nullptr;
  Expr condition;
  std::int64_t otherwise = 0;
};
/// The loop as that; nullopt for others.
std::optional<Search> as_search(const For& loop);
/// Whether it looks through nothing but what branches have decided before.
bool is_of_branches(const Search& search);

}  // namespace loopgrad::ir
