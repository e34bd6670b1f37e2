// Fission: a nest becomes several over the same loops, one after the other, each with some of its statements.
//
//   for i in 0..n:                        for i in 0..n:
//     a[i] = f(x[i])                        a[i] = f(x[i])
//     y[i] = a[i]              ->         for i in 0..n:
//                                           y[i] = a[i]
//
// Legality: nothing in an earlier part depends on anything in a later one. Locals that are used in several parts are
// refused (expand them first), and so are headers that the nest changes, which each part evaluates again.
#pragma once

#include "transforms/analysis/nest.h"
#include "transforms/loops/reorder_loops.h"

#include <map>

namespace loopgrad::transforms {

/// Whether a nest may be split into parts with these leaves, in that order. Each of its leaves is in one part.
Legality can_split(const Analysed& program, const ir::Stmt& nest, const std::vector<StmtSet>& parts);

/// The parts of a nest, in that order.
std::vector<ir::Stmt> split(const ir::Stmt& nest, const std::vector<StmtSet>& parts);

/// The user's step: after the first `after` statements of the body, or with 0 at every place where that is legal.
/// Throws UsageError when there is no such place.
Scheduled split_body(const Analysed& program, const LoopName& loop, int after);

/// Some leaves of a nest that are to form a nest of their own.
struct NestPart {
  int group = -1;  // number of the group of sums, or -1 for other statements
  StmtSet leaves;
};

/// Which leaves of a nest have to stay before which others, at any distance: finds parts that are legal.
class LeafOrder {
 public:
  /// `model` is the nest's. A leaf inherits what the bounds and conditions around it depend on, since each part
  /// evaluates them again. Throws BudgetError.
  LeafOrder(const poly::Model& model, const ir::Stmt& nest);

  /// Distributes the nest: parts in an order of execution, each group of sums one part of its own, the other leaves in
  /// as few parts as possible. nullopt when a group cannot be separated: its result is used, or what it needs is
  /// computed, in the same loops in both directions.
  std::optional<std::vector<NestPart>> split(const std::vector<StmtSet>& groups) const;

  /// Whether two leaves of the set (or one in two iterations) must keep their order.
  bool ordered_within(const StmtSet& leaves) const;

 private:
  struct Node;

  std::vector<std::size_t> numbers_of(const StmtSet& leaves) const;
  void note_needs(std::vector<Node>& nodes) const;
  static void close_transitively(std::vector<Node>& nodes);
  bool any_precedes(const std::vector<std::size_t>& first, const std::vector<std::size_t>& second) const;

  std::vector<const ir::StmtNode*> leaves_;
  std::map<const ir::StmtNode*, std::size_t> numbers_;  // of leaves
  std::vector<std::vector<bool>> before_;               // by numbers: nests have hundreds of leaves
};

/// Locals of the nest that are used in more than one part.
std::vector<ir::Array> crossing_locals(const ir::Stmt& nest, const std::vector<NestPart>& parts);
std::vector<ir::Array> crossing_locals(const ir::Stmt& nest, const std::vector<StmtSet>& parts);

}  // namespace loopgrad::transforms
