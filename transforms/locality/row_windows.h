// Which rows of an array have to exist at once when nests run row by row.
//
//   local f32 v[n, m]                                local f32 v[strips*8, m]
//   (rows of a strip, one after the other:)
//     row i of v from u                       ->       row strip*8 + slot(i) of v from u
//     row i - 1 of u from v[i - 2..i + 1]              row i - 1 of u from v[strip*8 + slot(i - 2) ..]
//
// A row that was read for the last time makes place for a later one, so that they all stay in the nearest caches. The
// rows at both ends of a strip, which the neighbouring strips or what is done after all strips read, have places of
// their own.
#pragma once

#include "transforms/locality/row_nests.h"

#include <map>

namespace loopgrad::transforms {

/// Of each strip, counted from its start: `first` rows with places of their own, then rows that share `shared` places,
/// then `last` rows with places of their own.
struct RowWindow {
  ir::Array array;  // with the rows of all strips, in place of the one that the program has
  std::int64_t first = 0, shared = 1, last = 0;

  std::int64_t rows() const { return first + shared + last; }
};
using RowWindows = std::map<ir::Array, RowWindow>;

/// Local arrays of the program, by their rows, of which a window is enough: nothing but these nests uses them, one of
/// them assigns them, and later ones read only what it has assigned, rows that lie a constant number of rows ahead or
/// behind. The nests have their places in time. The new arrays have no shape yet.
RowWindows row_windows(const ir::Program& program, const RowDistances& distances, const std::vector<RowNest>& nests);

/// The accesses of a row's code that lies in a strip of `rows` rows, on the arrays with windows. `peeled`: it is done
/// after all strips, and within the rows around `start` that have places of their own.
ir::Stmt in_windows(const ir::Stmt& row, const RowWindows& windows, const ir::Expr& strip, const ir::Expr& start,
                    const ir::Expr& rows, bool peeled);

}  // namespace loopgrad::transforms
