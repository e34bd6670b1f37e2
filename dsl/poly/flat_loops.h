// Loops over flat positions, of which rows and columns are computed by hand, become nests over rows and columns.
//
//   for h in 0..n*m:                          for h in 0..n:
//     y[h] = x[h//m]*w[h%m]           ->        for h_1 in 0..m:
//                                                 y[h*m + h_1] = x[h]*w[h_1]
//
// A quotient by a size is nothing that isl understands: sums into x[h//m] would have to be done as if data chose their
// elements. What is left as `h*m + h_1` is for `unflatten`, which calls this first.
//
// Requires: any program of the language. Guarantees: the same iterations in the same order. A loop is taken apart when
// it counts from 0 to a product of sizes and numbers, and a product of some of its factors, with a size among them, is
// what its iterator is divided by somewhere in it.
#pragma once

#include "dsl/ir/program.h"

#include <set>

namespace loopgrad::poly {

struct NestedLoops {
  ir::Program program;
  std::set<ir::Symbol> rows;  // iterators of the loops over rows; empty when no loop has been taken apart
};

NestedLoops with_flat_loops_nested(const ir::Program& program);

/// Whether an integer of the program has a product of one of the iterators with something that is no number: an index
/// or a bound that has got worse.
bool has_products_of(const ir::Program& program, const std::set<ir::Symbol>& iterators);

}  // namespace loopgrad::poly
