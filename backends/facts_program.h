// The facts that a user states, as a loop program that looks whether they hold: it is lowered and run like any other,
// so every target verifies facts at the speed of its memory.
#pragma once

#include "transforms/bounds/bound_accesses.h"
#include "transforms/bounds/leaving_accesses.h"

#include <set>

namespace loopgrad::backend {

/// What is verified by a program, and what has to be looked at on the host.
struct FactsProgram {
  /// Declares the arrays of `program`, all but tapes and as inputs, and the sizes that its arguments tell; an empty
  /// body when there is nothing to verify in this way.
  ir::Program program;
  /// The only array that `program` writes: one i64, how many times a fact does not hold or an index is out of range.
  ir::Array result;
  /// To be interpreted when an index is out of range: which one. It reads the same arrays and writes `seen`, of which
  /// element k is the largest index out of range of sites[k], or transforms::nothing_recorded.
  ir::Program recording;
  ir::Array seen;
  std::vector<transforms::RecordedSite> sites;
  /// Accesses of which sizes alone decide whether an iteration leaves the array, such as x(i + 1) in a loop to n: one
  /// does where `broken` holds. Evaluated on the host, in every run with other sizes than the last one.
  struct OfSizes {
    transforms::OpenAccess access;
    ir::Expr broken;
  };
  std::vector<OfSizes> of_sizes;
  /// For which sizes `program` has anything to look at: a bool; null for all of them.
  ir::Expr needed;
  /// As it was given, without rules and with counters as passes see them: what `of_sizes` is about.
  ir::Program source;
  /// The same arrays and sizes as `program`, with all facts and without a body.
  ir::Program stated;
  /// Injective facts of `stated` about arrays of which no in_range fact with the lower bound 0 is known: a table of the
  /// values that occur has no bounded size then.
  std::vector<ir::Fact> on_host;
  /// Arrays that decide: facts or indices are about them.
  std::set<ir::Array> deciding;
};

/// Facts are sums over the elements; for `injective` there are more loops:
///
///   for i in 0..n: violations += !(lower <= a[i] < upper)
///   for i in 1..n: violations += a[i - 1] > a[i]
///   if upper <= 16*n:
///     for k in 0..upper: marks[k] = false
///     for i in 0..n: if 0 <= a[i] < upper: marks[a[i]] = true
///     violations += n
///     for k in 0..upper: violations -= marks[k]
///   else:
///     for i in 0..n: if 0 <= a[i] < upper: owner[a[i]] = i
///     for i in 0..n: if 0 <= a[i] < upper: violations += owner[a[i]] != i
///
/// Indices of which only inputs decide, and that no fact bounds, are compared with the extents, in the loops and
/// branches that they stand in:
///
///   for i in 0..n: violations += (idx[i] < 0 || idx[i] >= m)
///
/// Where sizes and iterators decide about an index, and inputs whether the access happens, all of this is done for
/// those sizes only with which an iteration can leave the array:
///
///   if n + 1 > m: for i in 0..n: violations += mask[i] > 0 && i + 1 >= m
///
/// All that is looked at in the same iterations is looked at by one loop, which reads what it needs once. There is one
/// sum and no branch, so that registers, lanes and threads sum it; which index it was is asked only if there is one.
///
/// The program states injective facts, which make the loops that write parallel. Where they are false two threads
/// write one mark, which is the same, or one owner, whichever comes last, and the other one finds that. It states
/// nothing else, so that no pass takes what is to be verified for granted.
FactsProgram facts_program(const ir::Program& program);

}  // namespace loopgrad::backend
