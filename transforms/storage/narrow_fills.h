// A local array is filled where it is used: elsewhere nobody looks.
//
//   for v in 0..n:                                 for v in 0..n:
//     local d_s[e]                                   local d_s[e]
//     for z in 0..e: d_s[z] = 0              ->      for z in ptr[v]..ptr[v + 1]: d_s[z] = 0
//     for a in ptr[v]..ptr[v + 1]:                   for a in ptr[v]..ptr[v + 1]:
//       d_s[a] += ..                                   d_s[a] += ..
//
// An array with room for all rows of a CSR structure, of which each iteration uses one row, would otherwise be filled
// whole in each of them.
//
// Requires: nothing. Guarantees: the same results. A dimension is narrowed where every access but the fills has an
// iterator as its index there, of loops with the same bounds, which are known where the array is made. Leaves alone
// bounds that would read outside of their arrays where no loop runs.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program narrow_fills(const ir::Program& program);

}  // namespace loopgrad::transforms
