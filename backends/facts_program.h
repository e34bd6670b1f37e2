// The facts that a user states, as a loop program that looks whether they hold: it is lowered and run like any other,
// so every target verifies facts at the speed of its memory.
#pragma once

#include "transforms/bound_accesses.h"

#include <set>

namespace loopgrad::backend {

/// What is verified by a program, and what has to be looked at on the host.
struct FactsProgram {
  /// Declares the arrays of `program`, all but tapes and as inputs, and the sizes that its arguments tell; an empty
  /// body when there is nothing to verify in this way.
  ir::Program program;
  /// The only array that `program` writes: i64. Element 0 is how many times a fact does not hold, element k + 1 the
  /// largest index out of range of sites[k], or transforms::nothing_recorded.
  ir::Array result;
  std::vector<transforms::RecordedSite> sites;
  /// Accesses of which sizes alone decide, such as x(n - 1): out of range where `broken` holds.
  struct OfSizes {
    transforms::RecordedSite site;
    ir::Expr index, broken;
  };
  std::vector<OfSizes> of_sizes;
  /// The same arrays and sizes, with all facts and without a body.
  ir::Program stated;
  /// Injective facts of `stated` about arrays of which no in_range fact with the lower bound 0 is known: a table of the
  /// values that occur has no bounded size then.
  std::vector<ir::Fact> on_host;
  /// Arrays that decide: facts or indices are about them.
  std::set<ir::Array> deciding;
};

/// Each array is read once for all of its facts, and once more for `injective`:
///
///   for i in 0..n: violations += !(lower <= a[i] < upper), for i in 1..n: violations += a[i - 1] > a[i]
///   for i in 0..n: if 0 <= a[i] < upper: owner[a[i]] = i
///   for i in 0..n: if 0 <= a[i] < upper: violations += owner[a[i]] != i
///
/// Indices of which only inputs decide, and that no fact bounds, are compared with the extents, in the loops and
/// branches that they stand in:
///
///   for i in 0..n: if idx[i] < 0 || idx[i] >= m: result[1] max= idx[i]
///
/// The program states injective facts, which make the first of these loops parallel. Where they are false two threads
/// write one owner, whichever comes last, and the other one finds that. It states nothing else, so that no pass takes
/// what is to be verified for granted.
FactsProgram facts_program(const ir::Program& program);

}  // namespace loopgrad::backend
