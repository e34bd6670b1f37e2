// Sets and relations of statement instances from expressions of the IR.
#pragma once

#include "dsl/poly/abstraction.h"
#include "dsl/poly/model.h"

namespace loopgrad::poly {

/// lower <= index < upper
ir::Expr in_bounds(const ir::Expr& index, const ir::Expr& lower, const ir::Expr& upper);

/// The points of `scope` that satisfy `condition` for some values of the abstraction's symbols. `domain`: only where
/// the first dimensions are in it.
isl::set points_of(const Scope& scope, const ir::Expr& condition, const Abstraction& abstraction,
                   const std::optional<isl::set>& domain = {});

/// statement instance -> tuple[values], for some values of the abstraction's symbols, where `condition` holds. Values
/// number k for which `below` has an extent are in [0, extent).
isl::map relation_of(const std::shared_ptr<Context>& context, const Statement& statement,
                     const std::vector<ir::Expr>& values, const ir::Expr& condition, const Abstraction& abstraction,
                     const std::optional<isl::id>& tuple, const std::map<std::size_t, ir::Expr>& below = {});

/// Adds accesses to statements, whose name, iterators, domain and exactness must be known.
class AccessBuilder {
 public:
  /// The facts must outlive it.
  AccessBuilder(std::shared_ptr<Context> context, const Facts& facts) : context_(std::move(context)), facts_(facts) {}

  /// From now on: a local array that is allocated inside the region, inside of so many loops.
  void note_local(const ir::Array& array, std::size_t depth) { local_depth_[array->id] = depth; }

  /// From now on: of the statement whose accesses are added. Must outlive that.
  void set_numbers(const Numbers& numbers) { numbers_ = &numbers; }

  /// How many loops of the region are around the allocation of an array, plus 1; 0 for one from outside.
  std::size_t loops_around(const ir::Array& array) const;

  /// Loads below `e` in evaluation order.
  void add_reads(const ir::Expr& e, Statement& statement) const { add_reads(e, statement, ir::bool_const(true)); }
  void add_write(AccessKind kind, const ir::Array& array, const std::vector<ir::Expr>& indices, ir::ReduceOp op,
                 Statement& statement) const;

 private:
  void add_reads(const ir::Expr& e, Statement& statement, const ir::Expr& guard) const;
  Access access(AccessKind kind, const ir::Array& array, const std::vector<ir::Expr>& indices,
                const Statement& statement, const ir::Expr& guard) const;
  void set_relation(Access& access, const Statement& statement, const ir::Expr& guard, Abstraction& abstraction) const;
  std::vector<ir::Expr> local_prefix(const ir::Array& array, const Statement& statement) const;
  void note_indirect(Access& access, int dim, const Statement& statement) const;
  void note_entry(Access& access, int dim, const Statement& statement) const;

  std::shared_ptr<Context> context_;
  const Facts& facts_;
  const Numbers* numbers_ = nullptr;
  std::map<std::int64_t, std::size_t> local_depth_;  // local array -> number of loops around its Allocate
};

}  // namespace loopgrad::poly
