// Loops that keep an extremum together with what belongs to it.
//
//   top = a[0]                        best = top
//   at = 0                            for i in 1..n: best max= a[i]
//   for i in 1..n:                    taken = n
//     if a[i] > top:                  for i in 1..n:
//       top = a[i]           ->         taken min= select(a[i] == best && best > top, i, n)
//       at = i                        if taken != n:
//                                       top = a[taken]
//                                       at = taken
//
// An extremum and a search may be done in any order, by threads and vector lanes. What is differentiated is one
// iteration, and a tape has its number in place of a decision for each.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::ir {

/// Loops, and nests of them, in which all that an iteration changes is in one branch: where a value is greater (or
/// less, or equal as well) than what was kept of the iteration that took the branch last. What it is compared with is
/// what the branch stores, or made of it: `x[k] < x[m]` with `m = k` in the branch. The first of equal values is taken,
/// or the last one where equal ones take the branch, too. Other conditions before that, and values that an iteration
/// names, are understood. In a nest each loop is searched for itself, inner ones in the iterations that were found of
/// those around them. A nest in another loop asks first whether it has few iterations, and then looks for the one in
/// order, in the same way.
///
/// Requires: nothing. Guarantees: the same bits, with NaNs, infinities and zeros of both signs; but iterations that a
/// later one would have replaced do not evaluate what else the branch stores. Leaves alone: values of more than 64
/// operations and loads, with loops or functions like exp, which would be computed twice; branches that read what
/// iterations have kept, or do not set all of it anew; loops that read it elsewhere; inner bounds that read anything;
/// what is compared with an element, or made of several things, where a condition comes first: it may not exist; nests
/// of fewer than `least` iterations, where numbers say how many there are.
/// `guarded`: what is done of a nest in another loop where a condition comes first, which keeps vector lanes away.
enum class GuardedSearch { InAnyOrder, InOrder, None };
Program with_extremum_searches(const Program& program, std::int64_t least, GuardedSearch guarded);

}  // namespace loopgrad::ir
