// The polyhedral view of a program region: statements with their iteration domains, order and accesses as isl objects.
// Everything that is not affine is over-approximated and marked inexact, so that what is built on the model (dependence
// tests, scheduling, dataflow) stays right for every program of the language.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/poly/isl_bridge.h"

namespace loopgrad::poly {

enum class AccessKind { Read, Write, Reduce };

/// One access of one statement. `relation`: statement instance -> element. The element space is named after the array
/// (one unique tuple name per array id); for a local array allocated inside the region its first dimensions are the
/// iterators of the loops of the region that enclose the Allocate, then the indices: separate entries are separate
/// storage. `exact` is false when an index was not affine (that dimension is then unconstrained except for declared
/// extents where affine) or when an enclosing bound or condition was not.
struct Access {
  AccessKind kind = AccessKind::Read;
  ir::Array array;
  ir::ReduceOp op = ir::ReduceOp::Add;  // Reduce only
  isl::map relation;
  bool exact = true;
  ir::Expr load;  // Read: the Load expression (identity matters); null for writes
};

/// A leaf statement (Assign, Reduce, Push, Pop), or the header of a For, While or If whose bounds or condition load
/// data (reads only, executed where the header is evaluated: for For and If once before the body; for While before each
/// trip, its own iterator included in `iterators`).
struct Statement {
  ir::Stmt stmt;
  std::string name;                   // isl tuple name, "S0", "S1", ... in textual order
  std::vector<ir::Symbol> iterators;  // enclosing loops inside the region, outermost first
  isl::set domain;                    // over those iterators; parameters are sizes and symbols from outside the region
  bool exact = true;                  // the domain is exact: all bounds and conditions around it are affine
  std::vector<Access> accesses;  // reads in evaluation order, then the write; a Reduce is one Reduce access (no Read)
  isl::map schedule;             // instance -> time: all statements map into one common space, executed in
                                 // lexicographic order ([position, iterator, position, iterator, ...], padded)
  std::vector<ir::Stmt> loops;   // the enclosing For/While statements, one per iterator
  std::vector<int> loop_dims;    // for each of `iterators` its dimension in the schedule space
};

struct Model {
  std::shared_ptr<Context> context;  // owns the isl context; must outlive every isl object
  std::vector<Statement> statements;
  int schedule_dims = 0;
};

/// Builds the model of `region`, which is `program.body` or any statement below it (then iterators of loops around it
/// are parameters, of unknown value, and arrays allocated around it are ordinary arrays). Backward loops are ordered by
/// descending iterator, parallel loops as if forward. Facts are used: a loop over [ptr(r), ptr(r+1)) of a CsrPointer
/// array has domain entries in [0, total), and different r never share an entry (kept in `disjoint`: see below);
/// InRange bounds what an indirect index can reach; Injective index arrays are described in `docs/design/poly.md`.
/// Throws BudgetError (isl_bridge.h) when isl's operation budget is spent.
Model build_model(const ir::Program& program, const ir::Stmt& region, const std::shared_ptr<Context>& context);

}  // namespace loopgrad::poly
