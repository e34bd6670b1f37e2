// Kernels in which each thread works on its own: it takes one iteration of a nest of parallel loops, or a few.
//
//   chunk, tile   neighbours that touch runs of neighbouring elements (contiguous.h)
//   column        neighbours of a stencil, or more loads under way
//   lockstep      neighbours that share the loops inside: with wide accesses, or with loads that serve several of them
//                 (lockstep.h, register_tile.h)
#pragma once

#include "transforms/map/gpu/parallel_nest.h"

namespace loopgrad::transforms {

struct ThreadShape {
  std::int64_t block;   // threads of each block
  std::int64_t enough;  // fewer threads leave the device half empty
};

/// A kernel for the nest, whose loops make `total` trips. Where threads that take a few iterations would be too few for
/// the device at some sizes, several kernels between which the host chooses.
ir::Stmt thread_kernels(const ir::Program& program, ParallelNest nest, const ir::Expr& total, const ThreadShape& shape);

}  // namespace loopgrad::transforms
