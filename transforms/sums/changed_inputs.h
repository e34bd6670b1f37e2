// What follows from index arrays alone, computed again only where these are not as an earlier run has found them.
//
//                                local i32 changed[1]
//                                changed[0] = i32(stale == 1)
//                                if stale == 2:
//                                  parallel for i in 0..n:
//   parallel for i in 0..n:          if idx[i] != idx_seen[i]: changed[0] max= 1      (atomic)
//     order[i] = f(idx[i])   ->  parallel for i in 0..n:
//                                  if changed[0] != 0: idx_seen[i] = idx[i]
//                                parallel for i in 0..n:
//                                  if changed[0] != 0: order[i] = f(idx[i])
//
// The arrays are compared element by element, so that nothing rests on a promise or on a sum of digits. A GPU cannot
// tell the host what it finds without a wait: every kernel looks, and ends at once. A CPU has one branch around all.
#pragma once

#include "dsl/ir/program.h"

#include <vector>

namespace loopgrad::transforms {

/// An integer array from outside, and what a run before has seen in it: as long.
struct SeenArray {
  ir::Array array, seen;
};

/// `code`, which reads none of the seen arrays, for stale = 1: always, with what it is for being noted, and for
/// stale = 2: where an array is not what is noted of it. Requires: it runs outside of parallel loops.
ir::Stmt where_changed(const ir::Stmt& code, const ir::Symbol& stale, const std::vector<SeenArray>& arrays,
                       bool is_for_gpu);

}  // namespace loopgrad::transforms
