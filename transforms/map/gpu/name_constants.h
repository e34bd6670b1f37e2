// What is constant during a launch is computed by the host, once, and not by every thread.
//
//   grid for b in 0..max(n//4, 1):             for known in max(n//4, 1)..+1:
//     .. i in b*(n//max(n//4, 1))..     ->       for known_1 in n//max(n//4, 1)..+1:
//                                                  grid for b in 0..known:
//                                                    .. i in b*known_1..
//
// Named are integers for which a thread would have to divide by a variable, or to choose: the largest such expressions
// in a kernel that only use variables from around it, and no numbers of more than 32 bits: what a kernel is given has
// the width of its indices (backends/cuda/index_width.h). Requires: a mapped program. Guarantees: the same values
// wherever a thread computes them; a division by zero that none does is none of the host either.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Stmt name_constants(const ir::Stmt& mapped);

}  // namespace loopgrad::transforms
