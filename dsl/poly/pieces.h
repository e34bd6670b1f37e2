// Parts of models that are built once for all models that need them.
//
// Programs change little from pass to pass, and regions of them overlap: most loops, conditions and statements of one
// model are, as nodes, in others too. What isl makes of them is kept here by node, for as long as the `Pieces` live:
//
//   Environment   what a program says outside of its body: sizes, arrays, facts, and which of these arrays it writes
//   Assumption    on parameters: by an environment, and by the loops and conditions around a region
//   Place         the domain inside of some loops and conditions of a region; in it, statements with their accesses
//
// A piece is built with a budget of its own, and that it was spent is kept as well: so a model is the same, or fails in
// the same way, whatever was built before it.
#pragma once

#include "dsl/poly/abstraction.h"
#include "dsl/poly/model.h"

namespace loopgrad::poly {

/// What a piece depends on: addresses of nodes, which the piece keeps alive, and numbers.
using PieceKey = std::vector<std::uintptr_t>;

/// Starts counting isl operations anew, for one piece.
void restart_for_piece(Context& context);

/// Something that is built at most once, or that isl has failed to build.
template <class T>
class Piece {
 public:
  /// What `build` returns or has returned. Throws BudgetError, then and from then on.
  template <class Build>
  T& get(Context& context, const Build& build) {
    if (spent_) throw BudgetError();
    if (value_) return *value_;
    try {
      restart_for_piece(context);
      value_ = std::make_unique<T>(guarded(context, build));
    } catch (const BudgetError&) {
      spent_ = true;
      context.restart_budget();  // or isl's error would count as one of what comes next
      throw;
    }
    return *value_;
  }

  const T* known() const { return value_.get(); }

 private:
  std::unique_ptr<T> value_;
  bool spent_ = false;
};

template <class T>
using PieceMap = std::map<PieceKey, std::unique_ptr<Piece<T>>>;

template <class T>
Piece<T>& at(PieceMap<T>& pieces, const PieceKey& key) {
  std::unique_ptr<Piece<T>>& found = pieces[key];
  if (!found) found = std::make_unique<Piece<T>>();
  return *found;
}

struct Assumption {
  isl::set set;
  ir::Stmt kept;  // whose addresses are in its key
  PieceMap<Assumption> inside = {};
};

/// "The loop with iterator number `dim` runs over the entries of row `row` of the CSR structure `pointer`." Row a*g +
/// b, of a grid with g columns, is (a, b) with the stride g between rows of the grid.
struct CsrLoop {
  ir::Array pointer;
  int dim = 0;
  std::vector<ir::Expr> row;
  std::vector<ir::Stride> strides;  // of all but the last index of `row`
  bool of_data = false;             // `row` has symbols in place of what data decide
};

/// A statement but for what only one model knows of it: its number and the loops around it.
struct KnownStatement {
  ir::Stmt kept;                       // whose addresses are in its key
  std::vector<ir::Array> arrays = {};  // that it mentions
  PieceMap<Statement> by_depths = {};  // by the loops of the region around the allocations of these arrays
};

struct Place {
  isl::set domain;
  bool exact = true, exact_but_csr = true, exact_bounds = true;  // as in Statement
  std::vector<ir::Symbol> iterators = {};
  Numbers numbers = {};  // of these
  std::vector<CsrLoop> csr = {};
  ir::Stmt kept = {};  // whose addresses are in its key
  PieceMap<Place> inside = {};
  std::map<PieceKey, KnownStatement> statements = {};
};

struct Environment {
  Facts facts;
  std::vector<ir::Fact> stated;  // these and the arrays are kept alive
  std::vector<ir::Array> arrays;
  Piece<Assumption> sizes = {};
  Piece<Place> outside = {};  // of all loops and conditions of a region
};

class Pieces {
 public:
  explicit Pieces(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  const std::shared_ptr<Context>& context() const { return context_; }
  /// Also names sizes and arrays to isl, so that no piece pays for being the first to mention one. The budget of the
  /// context starts anew.
  Environment& environment_of(const ir::Program& program);
  /// How many different ones there are.
  std::size_t statements() const;

 private:
  Environment& named(const ir::Program& program);
  const std::vector<ir::Array>& written_by(const ir::Stmt& body);

  std::shared_ptr<Context> context_;  // first: the others hold isl objects
  std::map<PieceKey, Environment> environments_;
  std::map<const ir::StmtNode*, std::pair<ir::Stmt, std::vector<ir::Array>>> written_;  // by the body of a program
};

/// What `program` says of parameters around `region`.
const Assumption& assumption_around(const ir::Program& program, const ir::Stmt& region, Environment& environment,
                                    const std::shared_ptr<Context>& context);

/// As `build_model` in model.h, from pieces, adding those that are not there yet. The budget starts anew.
Model build_model(const ir::Program& program, const ir::Stmt& region, Environment& environment,
                  const Assumption& assumption, const std::shared_ptr<Context>& context);

}  // namespace loopgrad::poly
