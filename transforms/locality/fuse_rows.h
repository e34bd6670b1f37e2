// Runs nests that follow each other row by row, so that the later ones find in the cache what the earlier ones touched.
//
//   for t in 0..T:                              for t in 0..T:
//     parallel for i in 1..n - 1:                 parallel for strip in 0..strips:
//       parallel for j: v[i, j] = f(u)              for i in strip*R + 1..strip*R + R + 1:
//     parallel for i in 1..n - 1:          ->         if i < n - 1:
//       parallel for j: u[i, j] = v[i, j]               parallel for j: v[i, j] = f(u)
//                                                     if i - 1 >= strip*R + 2 && i - 1 < n - 1:
//                                                       parallel for j: u[i - 1, j] = v[i - 1, j]
//                                                 parallel for strip in 0..strips + 1:
//                                                   for i in max(1, strip*R)..min(n - 1, strip*R + 2):
//                                                     parallel for j: u[i, j] = v[i, j]
//
// Loops over the ends of rows only, as over the columns of a border, join nests that they share an array with: alone
// they would fetch a cache line for each element. Other parallel loops between the nests run before or after all of
// them if dependences permit.
//
// A row of a later nest comes as many rows after that of an earlier one as their dependences demand (here one: f reads
// the row below). Rows whose dependences reach into another strip are done afterwards. Method: Manjikian and
// Abdelrahman, "Fusion of loops for parallelism and locality" (1997), shift-and-peel.
//
// Where rows consist of rows themselves, as the planes of a cube do, and nothing crosses these, nests with equal bounds
// share the loop over them: for j: {for k: v[i, j, k] = ..; for k: w[i, j, k] = ..}.
//
// Requires: parallel loops are marked. Guarantees: the same operations on every element in the same order, hence the
// same bits. Leaves alone: nests that share no array, or not along the same dimension, whose dependences reach further
// than a few rows or are not known, whose row loops have bounds of data, or whose rows are anything but parallel loops
// without sequential ones: what sums does not wait for memory, and would lose the parallel loops inside its rows.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program fuse_rows(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
