// Decides whether a nest gets kernels whose blocks keep what they load in shared memory (shared_tiles.h), and of what
// size their tiles are.
//
// A thread has 8 by 4 sums in registers and takes 12 elements from shared memory for 32 terms, and a block of 128
// threads loads 2048 elements for 64 by 64 by 16 terms, or 3 % of what it would without. That needs iterations: where
// fewer than two of three of a tile's exist, or tiles are too few for the device, the kernels of before stay. Sums that
// are too few but long are split into parts that are added up in their order.
#pragma once

#include "dsl/ir/program.h"
#include "transforms/analysis/size_estimates.h"
#include "transforms/map/gpu/parallel_nest.h"

#include <functional>
#include <string>

namespace loopgrad::transforms {

struct TilingOptions {
  const SizeEstimates& sizes;
  std::int64_t enough_threads;                          // that fill the device
  std::int64_t threads;                                 // of a block, a power of two from 32
  std::function<ir::Stmt(const ir::Stmt& nest)> plain;  // kernels for a nest without tiles
};

struct TiledSums {
  ir::Stmt kernels;    // null: there are no tiles
  std::string reason;  // why there are or are not
};

/// Kernels between which the host chooses, `otherwise` among them. Requires: update_once.
TiledSums tile_dense_sums(const ir::Program& program, const ParallelNest& nest, const ir::Stmt& otherwise,
                          const TilingOptions& options);

}  // namespace loopgrad::transforms
