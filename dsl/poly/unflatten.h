// Arrays that a program indexes by hand as matrices become matrices.
//
//   inout f32 u[n*m]                              inout f32 u[n, m]
//   for i in 1..n - 1:                            for i in 1..n - 1:
//     for j in 0..m:                         ->     for j in 0..m:
//       u[i*m + j] += u[(i - 1)*m + j]                u[i, j] += u[i - 1, j]
//   for k in 0..n*m:                              for k in 0..n:
//     u[k] = 2*u[k]                                 for k_1 in 0..m:
//                                                     u[k, k_1] = 2*u[k, k_1]
//
// A product of a size and an iterator is nothing that isl understands: everything that asks which elements are touched
// would have to be told about it. Elements keep their places in memory; callers pass the array as they declared it
// (ArrayDecl::given). Known as delinearisation (Grosser, Ramanujam, Pouchet, Sadayappan, Pop: Optimistic
// delinearization of parametrically sized arrays, ICS 2015); here what they assume is proved.
//
// Requires: any program of the language. Guarantees: the same values in the same places, in the same order. A
// dimension is taken apart when its extent is a product, all of its indices are sums of rests times strides of which
// each divides the next larger one, and every rest but the first is in 0..its extent in all iterations, by isl. Loops
// over all elements, of which an iterator is an index of its own, become nests; so do loops over flat positions of
// which rows and columns are computed by division (flat_loops.h), where no array then stays flat. Rejects (leaves as
// they are): arrays with facts other than InRange and Injective, and those of which one index is not of the form, or
// cannot be proved in time. Planes that numbers choose, as 3*n + i of 19*n elements, are a dimension of their own
// unless a loop goes over all of them.
#pragma once

#include "dsl/ir/program.h"

namespace loopgrad::poly {

ir::Program unflatten(const ir::Program& program);

}  // namespace loopgrad::poly
