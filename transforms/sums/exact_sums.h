// Sums in whole numbers, for elements that data choose: these have the same bits in whatever order they are added up.
//
//                               for e in 0..targets: largest[e] = 0, whole[e] = 0
//   for i in 0..n:              for i in 0..n: largest[key[i]] max= |v(i)|                                 (atomic)
//     t[key[i]] += v(i)   ->    for i in 0..n: whole[key[i]] += floor(v(i)*(range/largest[key[i]]) + 1/2)  (atomic)
//                               for e in 0..targets: t[e] += whole[e]/(range/largest[e])
//
// `range` is 2^62 over the number of terms, so that no sum overflows: of 2^22 terms each is rounded at 2^-40 of the
// largest one of its element, far below what a sum of numbers of 32 bits loses. A bound of more than 2^40 terms counts
// as that. What that rounding leaves of a double is a second whole number, rest[e], of units that are smaller by
// `range` again. Terms that are not finite are counted instead, and give what IEEE 754 says: an infinity, or NaN. After
// Demmel and Nguyen, Parallel Reproducible Summation (2015), whose bins are one or two here, since the largest term is
// known first.
#pragma once

#include "dsl/poly/model.h"
#include "transforms/analysis/nest.h"

#include <map>
#include <vector>

namespace loopgrad::transforms {

/// Whether a sum of such an array can be done so: its numbers are no whole ones, whose sums have no order anyway.
bool can_be_exact(const ir::Array& target);

/// Sums into one target.
struct WholeSums {
  std::vector<ir::Stmt> sums;
  ir::Expr terms;  // known outside of the nest: no element gets more of them
};

/// The code around a nest, and what it does in place of each sum.
struct ExactSums {
  std::vector<ir::Array> arrays;  // around all of it
  ir::Stmt before, after;
  std::map<const ir::StmtNode*, ir::Stmt> in_place;
};

/// Requires: the sums are leaves of a nest, add to targets with `can_be_exact`, and the nest does not read these.
/// `finding`: a nest that has these very leaves, sets all that their terms need, and does nothing else; it becomes a
/// part of `before`, with fresh names. `model` of the nest, where there is one: indices that all terms have in common
/// need not exist where conditions leave all of these out. Guarantees: every element gets its terms but for rounding,
/// the same bits for any order of the iterations.
ExactSums exact_sums(const ir::Stmt& finding, const std::vector<WholeSums>& targets,
                     const poly::Model* model = nullptr);

}  // namespace loopgrad::transforms
