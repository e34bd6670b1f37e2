// Few rows, whose length only data tell, in pieces that different blocks take.
//
//   parallel for q in 0..k:                        parallel for q in 0..k:
//     parallel for e in p[q]..end[q]: A    ->        parallel for piece in 0..pieces:
//     parallel for f in 0..n: B                        share = ceil((end[q] - p[q])/pieces)
//                                                      parallel for e in p[q] + piece*share
//                                                                        ..min(p[q] + piece*share + share, end[q]): A
//                                                  parallel for q in 0..k:
//                                                    parallel for f in 0..n: B
//
// A block for each row leaves most of a device idle where there are few, however long they are. Legality: parallel
// loops are taken at their word; what follows in an iteration of one can follow in all.
#pragma once

#include "transforms/map/gpu/parallel_nest.h"

namespace loopgrad::transforms {

/// The nests that do what `nest` does, with `pieces` (of sizes) of each row; null where no row in it is of that kind.
/// Requires that the loops of `nest` and its body are the program's.
ir::Stmt row_pieces(const ParallelNest& nest, const ir::Expr& pieces);

}  // namespace loopgrad::transforms
