// A scalar for each value that a local scalar takes one after the other.
//
//   ux = jx/rho                         ux = jx/rho
//   if flag == 2:                       if flag == 2:
//     ux = 0.005               ->         ux_2 = 0.005
//   y = ux*rho                          else:
//                                         ux_2 = ux
//                                       y = ux_2*rho
//
// Then the backward sweep can have each of the values: what is never overwritten is read, kept or computed again as one
// (see value_plan.h), while a value that is overwritten can only be saved where it is read.
#pragma once

#include "dsl/ir/stmt.h"

namespace loopgrad::tape {

/// Gives local scalars that are stored to several times a new scalar where a value that was read would be overwritten.
/// Loops that store to a scalar from before them keep one for all their iterations, and so do scalars with very many
/// values. What is computed does not change: `s += e` becomes `s_2 = s + e` with the same rounding.
ir::Stmt single_values(const ir::Stmt& body);

}  // namespace loopgrad::tape
