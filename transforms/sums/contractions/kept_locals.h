// Locals that keep a sum from being a product of matrices:
//
//   for i in 0..m:                          for i in 0..m: for j in 0..n: s_all[i, j] = 0
//     for j in 0..n:                        for i in 0..m: for j in 0..n: for l in 0..k:
//       local s                        ->     s_all[i, j] += a[i, l]*b[l, j]
//       s = 0                               for i in 0..m: for j in 0..n: c[i, j] = tanh(s_all[i, j])
//       for l in 0..k: s += a[i, l]*b[l, j]
//       c[i, j] = tanh(s)
//
// They are scalars, or rows of one iteration as the scores of an attention.
#pragma once

#include "transforms/pass/pass.h"

#include <vector>

namespace loopgrad::transforms {

/// The locals of the nest that a product of two elements is summed into, or that are a factor of one, and that may be
/// kept for all iterations: there is an array in memory already with an element for each of these, or on a GPU it pays
/// (pays_to_keep).
std::vector<ir::Array> locals_of_products(const ir::Program& program, const ir::Stmt& nest, const PassContext& context);

/// Whether some sum of the nest could be a product of matrices with these locals kept, by the loops that its indices
/// mention: what is quick to see before locals are kept on trial. True is no promise.
bool may_help_products(const ir::Stmt& nest, const std::vector<ir::Array>& locals);

/// Whether a product with so many multiplications is that much faster alone that it pays to write and read these locals
/// for it, all of their elements in all iterations of the nest; by estimate. Where sizes that nobody stated decide how
/// much memory they take, see fits_memory.
bool pays_to_keep(const ir::Program& program, const ir::Stmt& nest, const std::vector<ir::Array>& locals,
                  double multiplications, const PassContext& context);

/// Whether arrays that locals were expanded to take no more memory than loopgrad takes without being asked: a condition
/// of sizes, for the host. Null: they do, as stated sizes tell, or they are as large as arrays of the program.
ir::Expr fits_memory(const ir::Program& program, const ir::Stmt& nest, const std::vector<ir::Array>& locals,
                     const std::vector<ir::Array>& expanded, const PassContext& context);

/// How often the leaf is executed, by estimate.
double instances_of(const ir::Program& program, const ir::Stmt& nest, const ir::Stmt& leaf, const PassContext& context);

}  // namespace loopgrad::transforms
