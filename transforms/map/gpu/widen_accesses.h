// Decides what the threads of a GPU move by wide accesses, and which of their loops are written in a row.
//
//   threads for t in 0..256:                            threads for t in 0..256:
//     for i in s..min(s + 4, n) (chunk of 4):     ->      for i in s..min(s + 4, n) (chunk of 4) (wide loads x[i],
//       y[i] = x[i]                                                                            stores y[i]):
//                                                           y[i] = x[i]
//
// What a chunk, or a tile of two, uses at neighbouring places (transforms/analysis/contiguous.h) is moved all at once
// where all its iterations exist and the addresses are aligned, which is asked at run time; else one by one. Of a tile
// whose rows are equally far apart two are asked for, else (`unevenly`) all. Where such
// a chunk is the body of a sequential loop, and the places of one trip are as far from those of the next in all trips,
// that is asked once for all of them (`wide in all trips`): the compiler can then have the loads of several trips under
// way, of eight where there are many sums. Loops of a thread with few trips, and chunks with arrays of the thread, are
// unrolled, so that indices are constants and the arrays stay in registers. Loops that push or pop are not: copies take
// long to compile and save nothing.
//
// Requires: locals have homes (place_locals). Changes nothing else.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program widen_accesses(const ir::Program& program);

}  // namespace loopgrad::transforms
