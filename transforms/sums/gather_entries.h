// Sums into the entries of rows that other rows look up, in gather form: where it is affine which rows look up which,
// the rows change places, and each entry is summed by one iteration.
//
//   for a in 0..g:                                   for c in 0..g:
//     for i in ptr[a]..ptr[a + 1]:                     for j in ptr[c]..ptr[c + 1]:
//       for c in max(a - 1, 0)..min(a + 2, g):   ->      for a in max(c - 1, 0)..min(c + 2, g):
//         for j in ptr[c]..ptr[c + 1]:                     for i in ptr[a]..ptr[a + 1]:
//           d_x[j] += f(i, j)                                d_x[j] += f(i, j)
//
// So particles in the cells of a grid meet those in the cells around theirs.
#pragma once

#include "transforms/sums/gather_sums.h"

namespace loopgrad::transforms {

/// The instances of `sum`, a leaf of `nest`, in such an order. Requires what gather_sums does, but for exact bounds:
/// loops run over all entries of rows of CSR structures, or have affine bounds that no entry takes part in. Null where
/// they do not, and where no index of the sum is the number of an entry in a row that affine loops choose.
ir::Stmt gather_entries(const poly::Model& model, const ir::Stmt& nest, const ir::Stmt& sum,
                        const Separators& separators);

}  // namespace loopgrad::transforms
