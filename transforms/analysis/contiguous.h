// Runs of neighbouring iterations that touch runs of neighbouring elements: what a GPU moves with one wide access.
//
//   for i in e..min(e + 4, n):        a chunk: four iterations of one thread, fewer at the end
//     for j in f..min(f + 4, m):      a second one directly inside: a tile of four by four
//       c[i, j] = a[j, i]             c lies along j, a along i
#pragma once

#include "dsl/ir/program.h"

#include <functional>
#include <optional>
#include <set>

namespace loopgrad::transforms {

using ir::Chunk;
using ir::chunk_loop;

inline constexpr std::int64_t chunk_width = 4;
inline constexpr std::int64_t short_column = 2;

/// Whether the array is small and local: a thread's own ones are kept in registers, and nothing of them is moved.
bool is_in_registers(const ir::Array& array);

/// An array that all iterations of a chunk or tile use at one place each, neighbours at neighbouring places; or, of an
/// array that is only read, one of several places that are not a constant distance apart.
struct ContiguousAccess {
  ir::Array array;
  std::vector<ir::Expr> indices;
  int along = 0;            // which of the iterators moves the last index by one
  bool reads = false;       // has to be loaded before
  bool writes = false;      // has to be stored after
  std::int64_t offset = 0;  // of the last index from that iterator, as far as it is constant
};

/// Those of a body for one or two iterators (of the chunk loops around it, outermost first); all places of an array or
/// none. Every one of them may be loaded before all iterations and stored after them. Empty for bodies with loops.
/// `may_alias`: arrays to leave out. `in_registers`: those that are no memory.
std::vector<ContiguousAccess> contiguous_accesses(
    const ir::Stmt& body, const std::vector<ir::Symbol>& iterators, const std::set<ir::Array>& may_alias,
    const std::function<bool(const ir::Array&)>& in_registers = is_in_registers);

/// Whether places are equally far apart from one iteration to the next: those of `a[2*i + 1, j]` along i are, those of
/// `a[max(i - 1, 0), j]` and `a[row[i], j]` are not.
bool are_evenly_apart(const std::vector<ir::Expr>& indices, const ir::Symbol& iterator);

/// Whether threads should take chunks along the iterator, which starts at `lower`: most accesses become wide, and they
/// can be aligned at the same time. Then: how far before `lower` the first chunk has to begin.
std::optional<std::int64_t> shift_for_chunks(const ir::Stmt& body, const ir::Symbol& iterator, const ir::Expr& lower);

/// Whether threads should take tiles: each of the two iterators has accesses along it.
bool gains_from_tiles(const ir::Stmt& body, const ir::Symbol& outer, const ir::Symbol& inner);

/// Whether the tile writes along its outer iterator only. Longer runs help writes more than reads.
bool writes_along_outer(const ir::Stmt& body, const ir::Symbol& outer, const ir::Symbol& inner);

/// Whether iterations read elements of one array that are a few iterations apart.
bool reads_neighbours(const ir::Stmt& body, const ir::Symbol& iterator);

/// Whether the iterations of a loop read what their neighbours along it read: a stencil over something else than it
/// writes. A thread that takes a few of them finds most addresses of one from those of another, and most elements in
/// the nearest cache.
bool is_stencil(const ir::Stmt& body, const ir::Symbol& iterator);

/// How many iterations along a column one thread takes: `chunk_width`, or `short_column` where so many load more than
/// the registers hold of a thread when a multiprocessor has all threads that it can.
std::int64_t column_width(const ir::Stmt& body);

}  // namespace loopgrad::transforms
