// Kernels in which a block of threads takes a tile of a nest's iterations and keeps what a step of their sums loads in
// memory that its threads share.
//
//   parallel for i, j:               grid for block_i, block_j:
//     local f32 s                      local f32 s[T, 8, 4]; local f32 a_tile[16, 64 + 4], b_tile[16, 64 + 4]
//     s = 0                            threads t: s[t, ..] = 0
//     for l in 0..k:            ->     for step in 0..ceil(k/16):
//       s += a[i, l]*b[l, j]             threads t: a_tile[..] = a[..], b_tile[..] = b[..]      # a few elements each
//     c[i, j] = s                        threads t: for l in 0..16: s[t, ..] += a_tile[l, ..]*b_tile[l, ..]
//                                      threads t: c[.., ..] = s[t, ..]
//
// Iterations beyond the end load what the last one loads, and store nothing; steps beyond the end are not done. The
// terms of each sum are added one by one in an order that depends on the program alone: the loop of steps is the
// innermost one.
//
// Requires: parallel_nest, update_once. Guarantees: every element gets the same operations but for the order of sums.
#pragma once

#include "transforms/map/gpu/dense_sums.h"

#include <functional>

namespace loopgrad::transforms {

/// What a block takes: `threads` make rows/thread_rows times columns/thread_columns.
struct BlockTile {
  std::int64_t rows, columns, thread_rows, thread_columns, steps;
  std::int64_t threads() const { return rows / thread_rows * (columns / thread_columns); }
};

/// The kernel, without the choice whether it pays.
ir::Stmt shared_tile_kernel(const ParallelNest& nest, const DenseSum& sum, const BlockTile& tile);

/// Which of the loops summed over can be cut into parts that different blocks take; null: none.
const DenseSum::Sum* loop_in_parts(const ParallelNest& nest, const DenseSum& sum);

/// A kernel whose blocks each take a part of the terms, in `parts` parts, and store to partial[part, ..]:
///
///   local f32 partial[parts, n, m]
///   for block_i, block_j, part: partial[part, i, j] = the sum of the terms of a part
///   parallel for i, j: s = c[i, j]; for part: s += partial[part, i, j]; c[i, j] = s
///
/// `combined(nest)` makes the second kernel. Requires: there is a loop_in_parts, `sum.sums` are sums of floating point.
ir::Stmt split_tile_kernel(const ParallelNest& nest, const DenseSum& sum, const BlockTile& tile, const ir::Expr& parts,
                           const std::function<ir::Stmt(const ir::Stmt& nest)>& combined);

}  // namespace loopgrad::transforms
