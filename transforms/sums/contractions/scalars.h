// Scalars that keep a sum from being a product of matrices:
//
//   for i in 0..m:                          for i in 0..m: for j in 0..n: s_all[i, j] = 0
//     for j in 0..n:                        for i in 0..m: for j in 0..n: for l in 0..k:
//       local s                        ->     s_all[i, j] += a[i, l]*b[l, j]
//       s = 0                               for i in 0..m: for j in 0..n: c[i, j] = tanh(s_all[i, j])
//       for l in 0..k: s += a[i, l]*b[l, j]
//       c[i, j] = tanh(s)
#pragma once

#include "dsl/ir/program.h"

#include <vector>

namespace loopgrad::transforms {

/// The scalars of the nest that a product of two elements is summed into, or that are a factor of one, and that may be
/// kept for all iterations: there is an array in memory already with an element for each of these.
std::vector<ir::Array> scalars_of_products(const ir::Stmt& nest);

}  // namespace loopgrad::transforms
