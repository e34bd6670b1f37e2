// Indices that are written as positions in memory, taken apart into the indices of a matrix.
#pragma once

#include "dsl/ir/program.h"

#include <map>
#include <optional>
#include <set>

namespace loopgrad::ir {

/// A product of expressions of sizes, none of them a product: how far apart two rows are. As printed text (sorted) so
/// that equal ones compare equal; the expressions are in `FlatIndices`.
using Stride = std::multiset<std::string>;

/// An integer expression as a sum of rests times strides: (i*m + j)*n + k is {m*n: i, n: j, 1: k}.
struct StridedTerms {
  struct Rest {
    std::vector<Expr> added, subtracted;
  };
  std::map<Stride, Rest> rests;
  Rest of_sizes;  // terms with nothing else in them, as in (n - 1)*m + j: of any stride that divides them
};

/// Takes expressions of a program with these sizes apart.
class FlatIndices {
 public:
  /// `numbers`: 3*i is i with the stride 3, not 3*i with the stride 1.
  FlatIndices(const std::vector<Symbol>& sizes, bool numbers) : sizes_(sizes.begin(), sizes.end()), numbers_(numbers) {}

  StridedTerms terms(const Expr& e);
  /// The index of each dimension of a matrix whose rows are as far apart as `chain` says.
  std::vector<Expr> indices(const StridedTerms& terms, const std::vector<Stride>& chain);
  /// The factors of an extent such as n*m or 3*(n + 2); numbers are factors like others.
  Stride factors(const Expr& extent);
  Expr product(const Stride& stride) const;

 private:
  bool is_of_sizes(const Expr& e) const;
  void add_factors(const Expr& e, Stride& stride);
  void add_terms(const Expr& e, const Expr& coefficient, const Stride& stride, StridedTerms& terms);

  std::set<Symbol> sizes_;
  bool numbers_;
  std::map<std::string, Expr> factor_of_;
};

/// From the largest stride down, each a multiple of the next, the last one 1; nullopt when they are not.
std::optional<std::vector<Stride>> as_chain(const std::set<Stride>& strides);

/// What is left of a product when `part`, some of its factors, is taken out; nullopt when they are none of its factors.
std::optional<Stride> quotient(const Stride& product, const Stride& part);

/// Whether two products have the same factors, in any order and with their numbers as one: n*(2*m) and 2*m*n.
bool same_product(const Expr& a, const Expr& b);

}  // namespace loopgrad::ir
