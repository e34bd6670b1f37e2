// Loops in which the first iteration that comes to an element takes what is there, wherever data say that it is.
//
//   for e in 0..n reversed:                         local i64 turn[m]
//     if x[e] == largest[key[e]]:                   turn = 0
//       d_x[e] += d_largest[key[e]]                 for e in 0..n:
//       d_largest[key[e]] = 0                ->       if x[e] == largest[key[e]]: turn[key[e]] max= 1 + e   (atomic)
//                                                   for e in 0..n:
//                                                     if x[e] == largest[key[e]]:
//                                                       d_x[e] += select(turn[key[e]] == 1 + e, d_largest[key[e]], 0)
//                                                   for v in 0..m: if turn[v] != 0: d_largest[v] = 0
//
// That is what gradients of extrema look like whose elements data choose (the largest message of the edges into a node,
// the nearest fragment in a pixel, bounds over the neighbours of faces), those of several extrema or sums that one loop
// takes (the range of an image, boxes around points), and those of stores where a later one may overwrite an earlier
// one. Iterations have turns, the first one the greatest: a maximum of whole numbers is the same in any order, so that
// it may be found by atomic operations where data choose the element, and is a sum like others where they do not. What
// is left are sums. Loops that do nothing but to look for one iteration are in search_loops.h.
//
// Requires: loops are not parallel yet. Guarantees: the same values, but that -0 stays -0 where zero would have been
// added to it. Leaves alone: on a CPU, elements that data choose, and loops in others; loops that carry something else
// than sums besides; elements that anything else in the loop touches; elements or conditions that follow from what the
// loop changes; turns that cannot be counted, as data or iterators around say how many trips there are, or as takers
// share a loop that not all are in; loops in another one that take one thread less time than turns of all elements
// would take all. (An index that is one for all takers is none of the turns.)
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program find_takers(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
