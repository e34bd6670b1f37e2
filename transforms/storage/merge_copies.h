// A local array that is only on its way into another array is that array.
//
//   for t:                                             for t:
//     for i in 1..n - 1: v[i] = f(u[i - 1], u[i + 1])    for i in 1..n - 1: u_tape[t, i - 1] = f(u[i - 1], u[i + 1])
//     for i in 1..n - 1:                            ->   for i in 1..n - 1: u[i] = u_tape[t, i - 1]
//       u[i] = v[i]
//       u_tape[t, i - 1] = u[i]
//
// Tapes often keep what a local array of the program holds anyway, and a result that is computed in place in a local
// array is copied as a whole in the end:
//
//   d_now[..] = d_u[..]                                d_u0[..] = d_u[..]
//   for t reversed: update d_now                 ->    for t reversed: update d_u0
//   for i in 0..n: for j in 0..m: d_u0[i, j] = d_now[i, j]
//
// Requires: nothing. Guarantees: the same results; one array less to write and to read. The local array is the other
// one when nothing but the copy touches that one and, in each iteration of the loops around the copy and the writers of
// the local array (none, for a result), all writers come before the copy, every element written is copied, to a place
// of its own, and every element read was written. Leaves alone: arrays with facts; arrays of products of matrices,
// unless all of them is copied as it is. Past isl's budget the array stays. Notes each array in the
// report.
#pragma once

#include "transforms/pass/pass.h"

namespace loopgrad::transforms {

ir::Program merge_copies(const ir::Program& program, PassContext& context);

}  // namespace loopgrad::transforms
