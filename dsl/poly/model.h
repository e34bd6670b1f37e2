// The polyhedral view of a program region: statements with their iteration domains, order and accesses as isl objects.
// Everything that is not affine is over-approximated and marked inexact, so that what is built on the model (dependence
// tests, scheduling, dataflow) stays right for every program of the language. See docs/design/poly.md.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/poly/isl_bridge.h"
#include "dsl/symbolic/flat_index.h"

namespace loopgrad::poly {

enum class AccessKind { Read, Write, Reduce };

/// An index of the form a[f(iterators)] with f affine and `a` an index array that the program never writes, or whose
/// elements are known to differ whenever they are read; or of the
/// form a[f(iterators)] + g(iterators), where `a` points to rows of a CSR structure and g is a place in that row.
struct Indirect {
  int dim = 0;  // which index of the access
  ir::Array index_array;
  isl::map subscript;        // statement instance -> element of the index array, or row and place
  bool injective = false;    // different subscripts have different values: the user says so, or they are entries
  bool is_of_entry = false;  // the subscript is row and place
};

/// One access of one statement. `relation`: statement instance -> element. The element space is named after the array
/// (one unique tuple name per array id); for a local array allocated inside the region its first dimensions are the
/// iterators of the loops of the region that enclose the Allocate, then the indices: separate entries are separate
/// storage. `exact` is false when an index was not affine (that dimension is then unconstrained except for facts and
/// declared extents where affine) or when an enclosing bound or condition was not.
struct Access {
  AccessKind kind = AccessKind::Read;
  ir::Array array;
  std::vector<ir::Expr> indices;        // as in the program
  ir::ReduceOp op = ir::ReduceOp::Add;  // Reduce only
  isl::map relation;
  bool exact = true;
  ir::Expr guard;                  // Read: what holds within the statement when it happens
  ir::Expr load;                   // Read: the Load expression (identity matters); null for writes
  std::vector<Indirect> indirect;  // the indices that are themselves read from arrays
};

/// "Iterator `dim` enumerates the entries of row `row` of the CSR structure `pointer`", i.e. it runs over
/// [pointer[row], pointer[row + 1]). Rows own consecutive, disjoint ranges of entries in rising order. A row is one
/// number, or several that rise as digits do: (a, b) for row a*g + b of a grid with g columns.
struct CsrEntry {
  ir::Array pointer;
  int dim = 0;
  std::vector<ir::Stride> strides;  // of all digits of the row but the last
  std::vector<ir::Expr> row;        // its digits, in the iterators; empty where data take part in them
  isl::map key;                     // statement instance -> [row, entry]
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
  bool exact_but_csr = true;          // as `exact`, not counting loops over CSR rows, which `entries` describes exactly
  bool exact_bounds = true;           // the bounds of all loops around it are affine (conditions may not be)
  std::vector<CsrEntry> entries;      // one for each enclosing loop (inside the region) over a CSR row
  std::vector<Access> accesses;  // reads in evaluation order, then the write; a Reduce is one Reduce access (no Read)
  std::vector<ir::Stmt> loops;   // the enclosing For/While statements, one per iterator
};

struct Model {
  std::shared_ptr<Context> context;   // owns the isl context; must outlive every isl object
  std::vector<Statement> statements;  // in textual order; dependences.h says which instances run before which
  isl::set
      assumptions;  // on parameters: sizes and extents are >= 0, iterators of loops around the region are in bounds.
                    // Not part of the domains: intersect with it (intersect_params) before testing for emptiness.
  std::vector<ir::Fact> aliases = {};  // the program's MayAlias facts
  std::vector<ir::Symbol> sizes = {};  // of the program
};

/// Builds the model of `region`, which is `program.body` or any statement below it (then iterators of loops around it
/// are parameters, and arrays allocated around it are ordinary arrays). Facts are used where the array is never written
/// by the program: InRange bounds what an indirect index can reach, CsrPointer gives `entries`, Injective is noted in
/// `Access::indirect`. Throws BudgetError (isl_bridge.h) when isl's operation budget is spent.
Model build_model(const ir::Program& program, const ir::Stmt& region, const std::shared_ptr<Context>& context);

/// All pairs of (instance of a, instance of b), in the domains or not, or none of them: something to start from.
isl::map unrelated_pairs(const Statement& a, const Statement& b, bool all);

/// Pairs (instance of a, instance of b) that can both be executed as far as CSR structures tell: one entry belongs to
/// one row, and rows and entries rise together. Intersect every relation between instances with it: dependences, flow.
isl::map possible_pairs(const Statement& a, const Statement& b);

/// Pairs that both treat the same entry of the same row of a CSR structure: if one of them is executed then so is the
/// other, as far as that loop decides. Empty when the two share no CSR structure.
isl::map same_entry(const Statement& a, const Statement& b);

/// Whether numbers keep elements of one array apart, as in x[2, i] and x[3, j]: seen without asking isl.
bool are_in_different_planes(const Access& a, const Access& b);

/// Pairs (instance of a's statement, instance of b's) that may touch the same element: through equal elements of one
/// array, minus what Injective facts exclude, or any pair when MayAlias relates the two arrays (in the domains or not).
/// Not yet restricted to `possible_pairs`. `sa`, `sb` are the statements that the accesses belong to.
isl::map touching_pairs(const Model& model, const Statement& sa, const Access& a, const Statement& sb, const Access& b);

}  // namespace loopgrad::poly
