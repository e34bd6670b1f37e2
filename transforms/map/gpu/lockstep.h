// The iterations of a chunk in lockstep, so that a sequential loop inside them runs once for all, with wide accesses.
//
//   for j in e..min(e + 4, n):             for e1 in e..e + 1:
//     local f32 s                            local f32 s[4]
//     s = 0                                  for j in e1..min(e1 + 4, n): s[j - e1] = 0
//     for i in 0..m:                 ->      for i in 0..m:
//       s += x[i, j]                           for j in e1..min(e1 + 4, n): s[j - e1] += x[i, j]
//     y[j] = s                               for j in e1..min(e1 + 4, n): y[j] = s[j - e1]
//
// A store to an array that statements before it load also ends a loop over the chunk: all loads of a stencil are under
// way before the first store, which the compiler could not change by itself.
//
// Where neighbours touch elements far apart, or the same, each iteration has copies of the statements instead, and what
// several of them load is loaded once (see register_tile.h for the choice of loops):
//
//   for k in e..min(e + 2, n):             for k_1 in min(k + 1, n - 1)..+1:
//     local f32 s                            local f32 s, s_1
//     s = 0                                  s = 0; s_1 = 0
//     for c in 0..m:                 ->      for c in 0..m:
//       s += x[c]*w[k, c]                      s += x[c]*w[k, c]; s_1 += x[c]*w[k_1, c]
//     y[k] = s                               y[k] = s
//                                            if k + 1 < n: y[k_1] = s_1
//
// An iteration that does not exist computes what the last one does, and stores nothing: no condition in the loops
// inside.
#pragma once

#include "transforms/analysis/contiguous.h"

namespace loopgrad::transforms {

/// Whether `lockstep` makes accesses wide that are inside loops of `body`, for chunks along a parallel loop's iterator
/// that starts at `lower`. Then: how far before `lower` the first chunk has to begin, as `shift_for_chunks`.
std::optional<std::int64_t> shift_for_lockstep(const ir::Stmt& body, const ir::Symbol& iterator, const ir::Expr& lower);

/// Whether a thread should take a few iterations along any parallel loop just to have more loads under way: assignments
/// and sums in a row, behind conditions that do not load at most, with no fewer elements to load than to store.
bool gains_from_more_loads(const ir::Stmt& body);

/// The chunk of a parallel loop. Requires: the body is one of the above for `iterator`.
ir::Stmt lockstep(const ir::Symbol& iterator, const Chunk& chunk, std::int64_t width, const ir::Stmt& body,
                  const SourceLocation& location);

/// Whether iterations along a parallel loop's iterator can be copies in lockstep: blocks, scalars, assignments and sums
/// with loops around them that are as long for all; no index in it is loaded from what it stores.
bool can_be_copied(const ir::Stmt& body, const ir::Symbol& iterator);

/// The iterations `iterator`.. of a parallel loop up to `upper`, `width` at most, as copies. Requires: the first
/// exists, and `can_be_copied`. Every element gets the same operations in the same order.
ir::Stmt lockstep_copies(const ir::Symbol& iterator, const ir::Expr& upper, std::int64_t width, const ir::Stmt& body);

}  // namespace loopgrad::transforms
