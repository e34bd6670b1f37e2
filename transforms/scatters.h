// Nests that are one sum through an index array: parallel loops around sequential ones around parallel ones,
//
//   parallel for b in ..:                      outer
//     for v in 0..n:                           sequential
//       for e in ptr[v]..ptr[v + 1]:
//         parallel for j in ..:                inner
//           d_x[idx[e], j] += w[e]*d_y[v, j]
//
// where the targets are the same for all iterations of the parallel loops.
#pragma once

#include "dsl/ir/program.h"

#include <optional>
#include <vector>

namespace loopgrad::transforms {

using Loops = std::vector<const ir::For*>;

/// A sequential loop whose extent the host knows, or the rows of a CSR structure with all of their entries.
struct ScatterFactor {
  const ir::For* loop = nullptr;  // for a CSR structure that over entries
  const ir::For* rows = nullptr;  // null: no CSR structure
  ir::Expr extent;                // how often it runs; for a CSR structure a bound of the entry number
};

struct Scatter {
  Loops outer, sequential, inner;
  std::vector<ScatterFactor> factors;  // what the sequential loops are, outermost first
  ir::Stmt leaf;
  const ir::Reduce* sum = nullptr;
  std::size_t dimension = 0;  // of the index that is read from data

  const ir::Expr& key() const { return sum->indices[dimension]; }
  /// All that the sequential loops have: a bound.
  ir::Expr iterations() const;
  /// The sum for one target and one iteration, given as values of the iterators.
  ir::Stmt sum_into(const ir::Expr& target, const std::vector<ir::Expr>& iteration) const;
};

/// The scatter that `nest`, a part of the program, is. Nullopt for anything else: atomic sums; targets that the nest
/// reads or that may alias; more than one index from data; loops of which nothing but data tells how often they run
/// (rows of a CSR structure are known to have all its entries together).
std::optional<Scatter> scatter_in(const ir::Program& program, const ir::Stmt& nest);

/// The loops around a statement.
ir::Stmt around(const Loops& loops, ir::Stmt body);

/// A loop over columns that was cut into blocks for several threads, as one loop again; null for others.
ir::Stmt whole_loop(const ir::For& blocks, const ir::For& columns, const ir::Stmt& body);

}  // namespace loopgrad::transforms
