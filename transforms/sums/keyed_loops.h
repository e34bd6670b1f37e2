// Loops whose iterations depend on each other through elements that data choose only: those with one key stay in their
// order, different keys run side by side.
//
//   for i in 0..n:                              sort (key[i], i), see sorted_iterations.h
//     y[key[i]] = y[key[i]]*a[i] + b[i]    ->   parallel for t in 0..targets:
//                                                 for p in begin[t]..end[t]:
//                                                   y[t] = y[t]*a[i_of[p]] + b[i_of[p]]
//
// The general form of what a sum by segments is a special case of: products and extrema of elements, recurrences by
// key, and stores of which the last one stays. Every element gets the same operations in the same order.
#pragma once

#include "transforms/bounds/open_accesses.h"
#include "transforms/sums/sorted_iterations.h"

namespace loopgrad::transforms {

/// A part of a loop's body, in a loop of its own.
struct KeyedPart {
  Loops rows;                     // parallel loops around that have the keys in common
  const ir::For* loop = nullptr;  // over the iterations
  ir::Stmt body;                  // of this part
  bool is_parallel = false;       // its iterations touch elements of their own
  ir::Stmt stream;                // the loop, with a sum into the elements of each iteration's key
  std::optional<Scatter> keys;    // what that is; of loops that `stream` must keep alive
  std::vector<ir::Expr> key;      // the indices from data that all of its accesses to changed elements have
  ir::Expr has_key;  // whether they are those of an element: others touch none, for a reason that the body has; or null

  /// As a nest of its own.
  ir::Stmt nest() const;
  /// How many iterations run side by side as it is.
  ir::Expr width() const;
};

/// What bounds and facts tell about indices anywhere in the program, which it must outlive.
IndexRanges ranges_in(const ir::Program& program);
/// Whether these expressions may be computed where the program does not: all that they load surely exists, and what
/// they divide by is no zero, unless sizes are.
bool can_be_asked_for(const ir::Program& program, const IndexRanges& ranges, const std::vector<ir::Expr>& list);
/// A bool of sizes: they divide by none that is zero. Null where they divide by no size.
ir::Expr divides_by_no_zero(const ir::Program& program, const IndexRanges& ranges, const std::vector<ir::Expr>& list);
/// A bool of sizes: each of the loops makes trips, in the first iteration of those in front of it. Null where their
/// bounds say more than sizes do.
ir::Expr all_run(const ir::Program& program, const Loops& loops);
/// A bool of sizes, under which what decides about targets and instances of a scatter may be looked at outside of the
/// loops over rows: these run, or it can be asked for; and no size that it divides by is zero. Null: always.
ir::Expr when_asked_for(const ir::Program& program, const IndexRanges& ranges, const Scatter& scatter);

/// The parts of a nest of parallel loops around one in order, which run one after another: they share nothing that one
/// of them changes, but for places of the iteration's own. Nullopt for other nests, and where no part has keys. A part
/// has keys when every array that it changes is accessed in places of the iteration's own, or under one list of indices
/// from data, which the part does not change, of arrays with the same extents there. Leaves alone: atomic sums, stacks,
/// arrays that may alias, bounds from data or from other loops of the nest.
std::optional<std::vector<KeyedPart>> keyed_parts(const ir::Program& program, const ir::Stmt& nest);

/// The part by its keys. `sorted`: has the order of `part.keys`.
ir::Stmt by_keys(const KeyedPart& part, const SortedIterations& sorted);

}  // namespace loopgrad::transforms
