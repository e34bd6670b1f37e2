// How many values a tape indexed by loop iterators must hold: every enclosing loop gets an origin and an extent, so
// that `iterator - origin` lies in [0, extent) and the extent is known before the program runs.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/symbolic/ranges.h"

#include <map>
#include <set>

namespace loopgrad::tape {

using ir::Range;
using Ranges = std::map<ir::Symbol, Range>;

/// Bounds of an integer expression, in sizes: triangular bounds give the bounding box, loads use the facts
/// InRange and CsrPointer. nullopt where data decides.
std::optional<Range> range_of(const ir::Expr& e, const Ranges& iterators, const ir::Program& program);

/// The tape dimension of one loop.
struct LoopExtent {
  // In sizes; the loop's lower bound where that is no more than the trips (in a band around outer iterators, or as a
  // load of `lower_local`).
  ir::Expr origin;
  ir::Expr extent;        // in sizes (and in `sizing` symbols)
  ir::Array lower_local;  // when set: both sweeps store the loop's lower bound here on entry; `origin` loads it
  const ir::StmtNode* replaces = nullptr;  // an outer loop whose iterations this one already tells apart (CSR rows)
};

/// The loop with its first iteration stored around it where indices of tapes in its body load that (`will_refer`: or
/// will, later).
ir::Stmt with_lower_local(const ir::Stmt& loop, const LoopExtent& extent, bool will_refer = false);

/// Extents of all loops of a program, by loop statement.
class LoopExtents {
 public:
  /// `counts_whiles`: a tape for a `while` is as long as it runs, where that can be counted (trip_counts.h), not as its
  /// bound.
  LoopExtents(const ir::Program& program, bool counts_whiles, std::set<std::string> taken = {});

  /// Throws DifferentiationError when data that the program itself computes decides how often the loop runs and no
  /// `at_most` was stated.
  const LoopExtent& of(const ir::Stmt& loop) const;
  bool knows(const ir::Stmt& loop) const;

  /// Those of the loops `around` a statement (outermost first) that a tape filled there needs as dimensions.
  std::vector<ir::Stmt> dimensions(const std::vector<ir::Stmt>& around) const;
  const Ranges& ranges() const { return ranges_; }

  /// A program whose rank-0 i64 outputs are named like `symbols(used)` and hold trip counts that depend on data; an
  /// empty body when there are none.
  ir::Program sizing(const std::set<ir::Symbol>& used) const;
  /// Sizes that are measured before a run, as far as somebody uses them.
  std::vector<ir::Symbol> symbols(const std::set<ir::Symbol>& used) const;
  /// Those of them that are the length of the longest row of a CSR structure, by its pointer.
  const std::map<ir::Array, ir::Symbol>& longest_rows() const { return longest_rows_; }

 private:
  struct Measured {
    ir::Symbol symbol;
    ir::Array output;  // of its name
    ir::Stmt taken;    // sets it
  };

  void visit(const ir::Stmt& s, std::vector<ir::Stmt>& around);
  ir::Expr not_negative(const ir::Expr& extent) const;
  LoopExtent extent_of_for(const ir::Stmt& loop, const std::vector<ir::Stmt>& around);
  LoopExtent from_lower_bound(const ir::For& loop, const ir::Expr& trips);
  std::optional<ir::Expr> width_of_band(const ir::For& loop, const std::vector<ir::Stmt>& around) const;
  bool is_csr(const ir::Array& array) const;
  bool is_fixed(const ir::Expr& e) const;
  const ir::Load* start_of_row(const ir::For& loop) const;
  const ir::StmtNode* replaced_by(const ir::For& loop, const std::vector<ir::Stmt>& around) const;
  std::string free_name(const std::string& wish) const;
  std::optional<ir::Expr> longest_row(const ir::For& loop, const ir::Expr& all);
  std::optional<ir::Expr> most_by_longest(const ir::Expr& bound, const SourceLocation& location);
  ir::Expr longest_row_of(const ir::Array& pointer, const ir::Expr& all, const SourceLocation& location);
  std::optional<ir::Expr> measured_trips(const ir::Stmt& loop, const std::vector<ir::Stmt>& around,
                                         const ir::Expr& most);
  void measure(const ir::Symbol& symbol, const ir::Array& output, const ir::Stmt& taken);

  const ir::Program& program_;
  std::set<ir::Array> written_;
  Ranges ranges_;
  std::map<ir::Symbol, const ir::Load*> entries_;  // iterators over entries of a CSR row, by the start of that
  std::map<const ir::StmtNode*, LoopExtent> extents_;
  const bool counts_whiles_;
  const std::set<std::string> taken_;  // names that sizes may not have
  std::vector<Measured> measured_;
  std::map<ir::Array, ir::Symbol> longest_rows_;
};

}  // namespace loopgrad::tape
