// Splitting a nest into several nests over the same loops, so that sums can be reordered apart from the rest.
#pragma once

#include "dsl/poly/model.h"
#include "transforms/analysis/nest.h"

namespace loopgrad::transforms {

/// Some leaves of a nest that are to form a nest of their own.
struct NestPart {
  int group = -1;  // number of the group of sums, or -1 for other statements
  StmtSet leaves;
};

/// Which leaves of a nest have to stay before which others, at any distance.
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
  bool precedes(const ir::StmtNode* a, const ir::StmtNode* b) const { return before_.count({a, b}) > 0; }

  std::vector<const ir::StmtNode*> leaves_;
  std::set<std::pair<const ir::StmtNode*, const ir::StmtNode*>> before_;
};

/// Locals of the nest that are used in more than one part.
std::vector<ir::Array> crossing_locals(const ir::Stmt& nest, const std::vector<NestPart>& parts);

}  // namespace loopgrad::transforms
