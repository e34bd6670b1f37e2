// Copies of what a nest reads, made before it.
//
//   for i in 0..n:                         for z0 in 0..n: a_before[z0] = a[z0 + 1]
//     a[i] = a[i + 1]*c[i]       ->        for i in 0..n:
//                                            a[i] = a_before[i]*c[i]
#pragma once

#include "dsl/ir/program.h"

#include <optional>
#include <vector>

namespace loopgrad::transforms {

/// One read of a nest.
struct ReadOfNest {
  ir::Stmt statement;           // a leaf, or a branch whose condition reads
  ir::Expr load;                // by identity, among its own expressions
  std::vector<ir::Stmt> loops;  // of the nest, around it, outermost first
};

/// Elements of an array as they were before a nest, for some of its reads.
struct CopyBefore {
  ir::Array array;               // has the copy
  std::vector<ir::Expr> origin;  // the element that is the first one of the copy; empty: each is where it was
  ir::Stmt fill;                 // null: the program has this copy anyway
  std::vector<std::size_t> reads = {};

  std::vector<ir::Expr> place_of(const std::vector<ir::Expr>& indices) const;
};

/// The copies that serve all of the reads, of arrays without aliases; `around` are the loops around the nest, which is
/// a For of the program. A copy is a box, of the elements that reads go through whose indices differ by little. nullopt
/// where some read has none, since
///   - a box would be much more than what the nest touches, or nobody knows how large it is: an iterator takes part in
///     two of the indices, large factors or data do, or bounds of its loop on both sides depend on others in the nest,
///   - elements of the array may have no value yet, as far as the program's text tells.
/// Where a nest in front has filled a tape with the whole array, that is the copy, for any read.
std::optional<std::vector<CopyBefore>> copies_before(const ir::Program& program, const ir::Stmt& nest,
                                                     const std::vector<ir::Stmt>& around,
                                                     const std::vector<ReadOfNest>& reads);

/// The nest with its reads from the copies.
ir::Stmt reading_copies(const ir::Stmt& nest, const std::vector<ReadOfNest>& reads,
                        const std::vector<CopyBefore>& copies);

}  // namespace loopgrad::transforms
