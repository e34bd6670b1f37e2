// Loops that look for one iteration become a search, which threads or vector lanes can share, and that iteration.
//
//   for c in 1..n reversed:                local i64 match
//     if x[c] == largest:                  match = 0
//       d_x[c] += d_largest                for c in 1..n:
//       d_largest = 0              ->        match max= select(x[c] == largest, c, 0)
//                                          if match >= 1:
//                                            d_x[match] += d_largest
//                                            d_largest = 0
//
// This is what the gradient of a minimum or maximum looks like: the first iteration that fits takes all, those after it
// add what vanishes with the adjoint, a multiple of zero.
//
// So it is of values that are computed in the loop, where all else that an iteration does is a multiple of what it
// takes: the search computes what the condition needs, and one iteration the rest.
//
//   for m in 0..n reversed:                for m in 0..n:
//     local f32 v                            local f32 v
//     v = f(x[m])                            v = f(x[m])
//     local f32 d_v                          match max= select(v == largest, m, -1)
//     d_v = 0                       ->     if match >= 0: ..
//     if v == largest:
//       d_v += d_largest
//       d_largest = 0
//     d_x[m] += d_v*g(x[m])
//
// A search among other statements of a loop comes first, where the others neither change what it uses nor read what it
// changes in another iteration:
//
//   for e in p..q reversed:                ..
//     if s[e] == largest:                  for e in p..q: match max= select(s[e] == largest, e, p - 1)
//       d_s[e] += d_largest           ->   if match >= p: ..
//       d_largest = 0                      for e in p..q reversed:
//     d_t += d_s[e]                          d_t += d_s[e]
//
// Requires: nothing. Guarantees: the same values, but that -0 stays -0 where zero would have been added to it, and that
// no other iteration adds 0*inf. Leaves alone: loops in which a later iteration does more than to add what is
// zero by then, or in which the condition depends on what the loop changes.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::transforms {

ir::Program search_loops(const ir::Program& program);

/// Whether the loop is one of these.
bool is_search(const ir::Program& program, const ir::Stmt& loop);

/// Whether the value is zero where the element is that is stored to. An infinite factor does not matter: what is added
/// after the first iteration that fits belongs to nobody.
bool vanishes_with(const ir::Expr& e, const ir::Assign& element);

/// The same for searches whose sums go to elements that iterations of a loop around them have in common: the nearest of
/// all points, for each of many. The sums of a search are one term for each iteration of that loop, at a target that
/// is read from `match`, instead of one for every candidate.
ir::Program search_shared_loops(const ir::Program& program);

}  // namespace loopgrad::transforms
