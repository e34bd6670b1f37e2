// Fills of all levels with a constant are done level by level, in the step that first uses the level.
//
//   for l in 0..T + 1: v[l, 0] = 1                         for l in 0..min(T + 1, 2): v[l, 0] = 1
//   for t in 0..T:                                   ->    for t in 0..T:
//     for i in 1..n: v[t + 1, i] = f(v[t, i - 1])            if t != 0 && t + 1 >= 0 && t + 1 < T + 1: v[t + 1, 0] = 1
//                                                            for i in 1..n: v[t + 1, i] = f(v[t, i - 1])
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

/// The body of `scope`, an Allocate of the program, with such fills sunk into the one loop in order that goes through
/// the levels of `dimension` and is around the uses, outermost; null where there are none. The loop uses levels
/// t + constant, and what is before it and after it none that its first step (its last one) does not reach. Levels that
/// nothing uses are not filled. Worthless by itself: fold_arrays asks whether fewer levels are alive then.
ir::Stmt sink_fills(const ir::Program& program, const ir::Stmt& scope, std::size_t dimension);

}  // namespace loopgrad::transforms
