// Nests of loops that keep an extremum together with what belongs to it: what extremum_searches.h looks for.
#pragma once

#include "dsl/ir/program.h"

#include <optional>
#include <set>
#include <vector>

namespace loopgrad::ir {

/// `if others && value op kept: ..` inside of the loops, all that they change.
struct KeptExtremum {
  std::vector<const For*> loops;  // outermost first
  Expr others;                    // what has to hold besides, or null
  Expr value;                     // what is compared, without what iterations name
  BinaryOp comparison = BinaryOp::Lt;
  Expr kept;    // the value of the iteration that took the branch last
  Stmt branch;  // sets all of what it sets anew, from nothing that it has set before
  SourceLocation where;

  bool is_largest() const { return comparison == BinaryOp::Gt || comparison == BinaryOp::Ge; }
  bool is_strict() const { return comparison == BinaryOp::Lt || comparison == BinaryOp::Gt; }
  /// Whether what is kept is a scalar, which can be copied whether it has a value or not.
  bool is_scalar() const;
  bool mentions_iterators(const Expr& e) const;
  /// How many iterations there are; null where those of inner loops differ.
  Expr trips() const;
};

/// The loop, and those perfectly nested in it but for what iterations name, as that; nullopt for others. `kept` can be
/// evaluated before the loops where they make a trip, bounds of inner loops anywhere.
std::optional<KeptExtremum> kept_extremum(const Stmt& loop, const std::set<Array>& aliased);

}  // namespace loopgrad::ir
