// Sums in whole numbers, for elements that data choose: these have the same bits in whatever order they are added up.
//
// Floats, of which one whole number for each of 16 sizes adds up all digits, and the terms are made once:
//
//                               for e in 0..targets: bins[.., e] = 0
//   for i in 0..n:              for i in 0..n: bins[b, key[i]] += v(i)*2^(149 - 16 b)                      (atomic)
//     t[key[i]] += v(i)   ->        of the b, in 0..16, for which that is whole and has at most 40 digits
//                               for e in 0..targets: t[e] += sum over b of bins[b, e]*2^(16 b - 149)
//
// Few elements have their bins side by side, so that those of neighbours lie in different lines of the cache, where
// threads wait less for each other. There is room for 2^23 terms in 64 bits. Where there may be more, each bin is 2 of
// 8 binary digits less, or 4 of 12: more than 2^35 into one element would take minutes.
//
// Doubles, whose bins would be a hundred, and floats where elements get so few terms that bins cost more than these:
// the largest term of each element is found first.
//
//                               for e in 0..targets: largest[e] = 0, whole[e] = 0, rest[e] = 0
//   for i in 0..n:              for i in 0..n: largest[key[i]] max= |v(i)|                                 (atomic)
//     t[key[i]] += v(i)   ->    for i in 0..n: whole[key[i]] += floor(v(i)*(range/largest[key[i]]) + 1/2)  (atomic)
//                                              rest[key[i]] += what that leaves of a double, in smaller units (atomic)
//                               for e in 0..targets: t[e] += (whole[e] + rest[e]/range)/(range/largest[e])
//
// `range` is 2^62 over the number of terms, so that no sum overflows; more than 2^31 count as 2^40, which take an hour.
//
// Terms that are not finite are counted instead, and give what IEEE 754 says: an infinity, or NaN. After Demmel and
// Nguyen, Parallel Reproducible Summation (2015), whose bins these are.
#pragma once

#include "dsl/poly/model.h"
#include "transforms/analysis/nest.h"
#include "transforms/pass/machine.h"

#include <map>
#include <vector>

namespace loopgrad::transforms {

/// Whether a sum of such an array can be done so: its numbers are no whole ones, whose sums have no order anyway.
bool can_be_exact(const ir::Array& target);
/// How: by estimate, of what is possible.
struct ExactForm {
  bool in_bins = true;  // floats: the terms are made once
  bool few = false;     // elements, for bins
};
bool can_have_bins(const ir::Array& target, const Machine& machine);
/// What the sums of an element take beside it, in bytes, where it gets at most so many terms.
double bytes_of_exact(const ir::Array& target, const ExactForm& form, double terms);
/// That many elements are few where each gets so many terms, for which threads wait.
inline constexpr double few_with_bins = 1 << 14, many_of_few = 32;

/// More terms than so many are all the same.
inline constexpr std::int64_t many_terms = (std::int64_t{1} << 31) + 1;

/// Sums into one target.
struct WholeSums {
  std::vector<ir::Stmt> sums;
  /// No element gets more of them, unless it is `many_terms` or more. The host knows it. Null, of bins: nobody does.
  ir::Expr terms;
  ExactForm form = {};
};

/// The code around a nest, and what it does in place of each sum.
struct ExactSums {
  std::vector<ir::Array> arrays;  // around all of it
  ir::Stmt before, after;
  std::map<const ir::StmtNode*, ir::Stmt> in_place;

  /// `nest` has what is in place of the sums.
  ir::Stmt around(const ir::Stmt& nest, const SourceLocation& where) const;
};

/// Requires: the sums are leaves of `nest`, add to targets with `can_be_exact`, and the nest does not read these.
/// `finding`: null where all targets are in bins; else a nest that has the very leaves of those that are not, sets all
/// that their terms need, and does nothing else: it becomes a part of `before`, with fresh names. `model` of the nest,
/// where there is one: indices that all terms have in common need not exist where conditions leave all of these out.
/// Guarantees: every element gets its terms but for rounding, the same bits for any order of the iterations.
ExactSums exact_sums(const ir::Stmt& nest, const ir::Stmt& finding, const std::vector<WholeSums>& targets,
                     const poly::Model* model = nullptr);

}  // namespace loopgrad::transforms
