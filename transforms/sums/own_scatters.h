// Sums through an index array: each block owns a range of the targets and takes what falls into it.
//
//   parallel for j in 0..d:                   parallel for owner in 0..O:
//     for i in 0..n:                            local i64 any[1024]
//       d_t[idx[i], j] += d_y[i, j]             for round in 0..ceil(n/16384):
//                                                 parallel for s in 0..1024:
//                                                   any[s] = 0
//                                                   for i in segment s of the round:
//                                       ->            if owner*S <= idx[i] && idx[i] < owner*S + S: any[s] = 1
//                                                 parallel for j in 0..d:
//                                                   for s in 0..1024:
//                                                     if any[s] != 0:
//                                                       for i in segment s of the round:
//                                                         if owner*S <= idx[i] && idx[i] < owner*S + S:
//                                                           d_t[idx[i], j] += d_y[i, j]
//
// O is up to 512, S the share of each. Every owner looks at every index, its threads side by side, which is much
// cheaper than the sum itself being done by the threads of one loop alone; an inverted index would be cheaper still.
// Without a parallel loop around, each owner is one thread that looks at all indices in order.
//
// Requires: parallel loops are marked. Guarantees: every element gets the same operations in the same order. Leaves
// alone: loops with more than the one sum in them, targets that bounds, values or indices read, arrays that may alias.
#pragma once

#include "dsl/ir/program.h"

#include <optional>

namespace loopgrad::transforms {

/// `nest`, a part of the program, done so; nullopt where it stays as it is.
std::optional<ir::Stmt> owned_scatter(const ir::Program& program, const ir::Stmt& nest);

}  // namespace loopgrad::transforms
