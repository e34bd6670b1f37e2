// Splits parallel loops, so that each part is a perfect nest that fills the device by itself.
//
//   parallel for i in 0..n:                        parallel for i in 0..n:
//     if i > 0:                                      if i > 0:
//       parallel for j in 0..m:                        parallel for j in 0..m:
//         parallel for k in 0..m: A          ->          parallel for k in 0..m: A
//     else:                                        parallel for i in 0..n:
//       parallel for j in 0..m: B                    if !(i > 0):
//     parallel for j in 0..i: C                        parallel for j in 0..m: B
//                                                  parallel for i in 0..n:
//                                                    parallel for j in 0..i: C
//
// The iterations of a parallel loop do not see each other, so all may do their first part before any does its second.
// A loop is split where its parts would otherwise wait for each other with threads idle: when they are nests of two or
// more parallel loops, or depend on conditions of iterators. Parts that share one level of loops inside stay together:
// one block of threads finds in its cache what the part before has left there.
//
// Nests that do nothing but to set elements to one constant, over and over in whatever order, are split as well: the
// loops around each single assignment, or those of opposite borders, are then parallel.
//
// Requires: parallel loops are marked. Guarantees: every element gets the same operations in the same order. Leaves
// alone: loops whose body declares local arrays, conditions of data.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program split_kernels(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
