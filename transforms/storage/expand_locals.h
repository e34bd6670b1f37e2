// Locals of a loop body that have to outlive it: one element for every iteration.
//
//   for i in 0..n:                    local f32 s_all[n]
//     local f32 s            ->       for i in 0..n:
//     s = ...                           s_all[i] = ...
//     y[i] = s                          y[i] = s_all[i]
#pragma once

#include "dsl/poly/model.h"

#include <map>
#include <set>
#include <vector>

namespace loopgrad::transforms {

/// Those of the statements around something that are loops, For or While.
std::vector<ir::Stmt> loops_of(const std::vector<ir::Stmt>& around);

/// A nest whose chosen locals have become arrays over the loops between it and their Allocate. `arrays` still has to be
/// allocated around it.
struct Expansion {
  ir::Stmt nest;
  std::vector<ir::Array> arrays;
};

/// `model` is that of the nest, a part of the program. A dimension has room for all values of its iterator: those that
/// the nest's bounds give, else those that facts about index arrays allow. Counted from the loop's lower bound, it has
/// room for the width of a band around outer iterators; where data decide that bound, for as many trips as the loop
/// promises; and for the longest row of a CSR structure, where something else than a loop over the rows chooses it. A
/// loop over CSR rows is left out as a dimension where the loop over their entries is one, since an entry belongs to
/// one row. nullopt when an extent is not known on entry to the nest. Leaves keep their order, so the k-th leaf of the
/// result is the k-th of `nest`. `innermost`: iterators whose dimensions come last, as who reads the local goes through
/// them side by side; others have the order of the loops.
using InnermostDimensions = std::map<ir::Array, std::set<ir::Symbol>>;
std::optional<Expansion> expand_locals(const ir::Program& program, const poly::Model& model, const ir::Stmt& nest,
                                       const std::vector<ir::Array>& locals, const InnermostDimensions& innermost = {});

}  // namespace loopgrad::transforms
