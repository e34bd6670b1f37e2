// A local array that is only on its way into another array is that array.
//
//   for t:                                             for t:
//     for i in 1..n - 1: v[i] = f(u[i - 1], u[i + 1])    for i in 1..n - 1: u_tape[t, i - 1] = f(u[i - 1], u[i + 1])
//     for i in 1..n - 1:                            ->   for i in 1..n - 1: u[i] = u_tape[t, i - 1]
//       u[i] = v[i]
//       u_tape[t, i - 1] = u[i]
//
// Tapes often keep what a local array of the program holds anyway. Requires: nothing. Guarantees: the same results; one
// array less to write and to read. Merges a local array of one writer with an array that nothing but the copy touches,
// when, in each iteration of the loops around both, every element written is copied, every element read was written,
// and all that happens after the writing. Past isl's budget the array stays.
//
// A local array of any number of writers is the target, too, when a nest outside of all other loops copies all of it to
// an array of the same shape that nothing else touches, and nothing uses it afterwards:
//
//   d_now[..] = d_u[..]                                d_u0[..] = d_u[..]
//   for t reversed: update d_now                 ->    for t reversed: update d_u0
//   for i in 0..n: for j in 0..m: d_u0[i, j] = d_now[i, j]
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program merge_copies(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
