// The tape plan: for every value of the primal program that the backward sweep needs, where it comes from.
//
// In order of preference, decided per read from the polyhedral model of the primal program:
//   direct        the array still holds the value when the backward sweep runs: read it there
//   recomputed    a local scalar that is assigned once from values that are themselves direct, by a short expression:
//                 where it is read, or once at the start of the body that declares it when several statements read it.
//                 What only names a part of a statement (see name_values.h) is always recomputed, from the values that
//                 the statement would need
//   kept          a local array that is not overwritten within its scope: the forward sweep keeps one copy per
//   iteration of
//                 the loops around its declaration, and that copy is the tape
//   writer's tape the element is overwritten, but isl's dataflow says exactly which statement instance wrote the value:
//   each
//                 writer saves what it writes at its own iterators, the read gets the index from the flow relation; a
//                 writer that goes through the array again and again saves it in the array's own shape
//   reader's tape otherwise: saved where it is read, at the reader's own iterators, so that an index always exists;
//   moved
//                 out of inner loops that do not change the value
// A branch condition that would need a tape is saved itself, as one bool; so is whether a `min=` or `max=` took its
// operand, unless the final value tells; a `while` saves its trip count.
#pragma once

#include "dsl/ir/rewriter.h"
#include "dsl/poly/dataflow.h"
#include "tape/gradient_program.h"
#include "tape/loop_extents.h"
#include "tape/sites.h"

namespace loopgrad::tape {

/// A local array that survives the iteration it belongs to.
struct KeptArray {
  ir::Array tape;
  std::vector<ir::Expr> leading;  // index of this iteration's copy
  bool at_scope_end = false;      // the array stays as it is and is copied at the end of its scope
};

/// What the forward sweep does in addition to the primal program.
struct ForwardAdditions {
  std::vector<ir::Stmt> prologue;                                      // before everything: initial contents
  std::map<const ir::StmtNode*, std::vector<ir::Stmt>> before, after;  // around a statement
  std::map<const ir::StmtNode*, std::vector<ir::Stmt>> at_body_start;  // of a while loop
  std::map<ir::Array, KeptArray> kept;
};

/// Fills itself on demand: the backward generator asks for values, and what the forward sweep must save accumulates in
/// `additions()`. The primal program must not change in between.
class TapePlan {
 public:
  TapePlan(const Prepared& prepared, Report& report);

  /// `e`, a primal expression evaluated at statement `site`, as an expression of the backward sweep at the same
  /// iteration.
  ir::Expr provide(const ir::Expr& e, const ir::Stmt& site);
  /// `guard`: a condition over primal values, evaluated just before `site`, without which the adjoint does not run.
  ir::Stmt provide(const ir::Stmt& adjoint, const ir::Stmt& site, const ir::Expr& guard = {});
  /// The same for the condition of the If `site`: saved as a whole when it would need a tape otherwise.
  ir::Expr provide_condition(const ir::Stmt& site);
  /// The trip count of the While `site`.
  ir::Expr provide_trips(const ir::Stmt& site);
  /// The value stored by the Assign or Reduce `site`, when the array that it was stored to still holds it or a tape
  /// does.
  std::optional<ir::Expr> stored_value(const ir::Stmt& site);
  /// Whether the `min=` or `max=` of `site` took its operand. From the final value where nothing reads intermediate
  /// ones (of equal operands the last is then taken), else saved as a bool.
  ir::Expr provide_taken(const ir::Stmt& site);
  /// `sweep`, the backward sweep of a body (of a loop, a branch, or the program), after the scalars that it computes
  /// again.
  ir::Stmt with_computed_again(const ir::Stmt& body, const ir::Stmt& sweep);
  /// Whether the adjoint of the element stored by `site` is looked at again by the rest of the backward sweep.
  bool adjoint_is_read_later(const ir::Stmt& site);

  const ForwardAdditions& additions() const { return additions_; }
  const std::vector<ir::Array>& tape() const { return tape_; }
  const LoopExtents& extents() const { return extents_; }

 private:
  static constexpr int longest_recomputation = 24;  // operations; a load costs about as much as a few of them
  static constexpr int short_recomputation = 2;     // not worth a scalar
  static constexpr int longest_assignment = 64;     // operations of one scalar that is computed again for all its reads
  static constexpr int most_in_body = 4096;         // and of all of a body

  struct ComputedAgain {  // a scalar of the primal program that the backward sweep has, too
    ir::Array local;      // there; null: it cannot be computed again
    ir::Stmt assignment;
    const ir::StmtNode* body = nullptr;  // that it is computed at the start of
    int position = 0;
    bool final = false;  // nothing else to be tried
  };
  struct Supplied {
    ir::Expr load, guard, value;
  };

  void build_model();
  const Site& site_of(const ir::Stmt& s) const { return sites_.of(s); }
  std::optional<poly::Access> find_access(const ir::Load& load, const Site& site) const;
  const poly::Access* find_write(const Site& site) const;
  bool is_overwritten(const ir::Load& load, const Site& site);

  // `guard`: the condition under which `site` reads the value, over primal values, or null (see guarded_loads.h).
  ir::Expr provide(const ir::Expr& e, const ir::Stmt& site, const ir::Expr& guard);
  std::vector<ir::Expr> provide_all(const std::vector<ir::Expr>& list, const ir::Stmt& site,
                                    const ir::Expr& guard = {});
  ir::Expr supply(const ir::Expr& load, const ir::Stmt& site, const ir::Expr& guard);
  const ir::Expr* already_supplied(const ir::Expr& load, const ir::Stmt& site, const ir::Expr& guard) const;
  std::optional<ir::Expr> without_tape(const ir::Expr& e, const ir::Stmt& site, int& budget);
  std::optional<ir::Expr> recomputed(const ir::Load& load, const ir::Stmt& site, int& budget);
  bool holds_at(const ir::Array& scalar, const ir::Stmt& site) const;
  std::optional<ir::Expr> computed_again(const ir::Load& load, const ir::Stmt& site);
  void compute_again_up_to(int position);
  ComputedAgain again_as(const ir::Array& scalar, const ir::Expr& value);
  std::optional<ir::Expr> from_computed_again(const ir::Expr& value, const ir::Stmt& site, int& budget);
  std::optional<ir::Expr> from_kept(const ir::Load& load, const ir::Stmt& site, const ir::Expr& guard);
  std::optional<ir::Expr> from_writers(const ir::Load& load, const ir::Stmt& site, const ir::Expr& guard);
  std::optional<ir::Expr> from_own_tape(const ir::Stmt& site);
  bool keeps_intermediate_extrema_secret(const ir::Reduce& site);
  ir::Stmt hoisted(const ir::Expr& value, const ir::Stmt& site) const;
  ir::Expr from_reader(const ir::Expr& value, const std::string& name, const ir::Stmt& reader, const ir::Expr& guard,
                       const std::string& why);
  const KeptArray* keep(const ir::Array& array);
  std::optional<ir::Expr> value_from(const poly::Source& source, const ir::Load& load, const ir::Stmt& site,
                                     const ir::Expr& guard);

  bool is_sequential(const ir::Stmt& loop) const;
  std::vector<ir::Stmt> in_layout(std::vector<ir::Stmt> loops) const;
  bool is_laid_out_like_array(const ir::Stmt& writer, const std::vector<ir::Stmt>& loops) const;
  ir::Array new_writer_tape(const ir::Stmt& writer);
  std::vector<ir::Expr> writer_tape_index(const ir::Stmt& writer, const ir::Substitution& at = {}) const;
  bool can_index(const std::vector<ir::Stmt>& loops) const;
  std::vector<ir::Expr> tape_index(const std::vector<ir::Stmt>& loops, const ir::Substitution& at = {}) const;
  ir::Array new_tape(const std::string& name, ScalarType type, const std::vector<ir::Stmt>& loops,
                     const std::vector<ir::Expr>& inner_shape, SourceLocation where);
  void note(const ir::Expr& value, SourceLocation where, const std::string& decision, const ir::Expr& storage,
            const ir::Array& tape, const std::string& reason);

  const Prepared& prepared_;
  Report& report_;
  LoopExtents extents_;
  std::optional<poly::Model> model_;
  mutable std::map<const ir::StmtNode*, bool> sequential_;  // loops that is_sequential() was asked about
  Sites sites_;
  std::set<ir::Array> primal_;
  std::map<int, ir::Array> scalars_;  // locals with one Assign, by its position
  int tried_up_to_ = -1;              // which of these were looked at for computed_again_
  std::map<ir::Array, ComputedAgain> computed_again_;
  std::map<const ir::StmtNode*, int> work_in_body_;
  std::map<const ir::StmtNode*, std::vector<Supplied>> supplied_;
  std::map<const ir::StmtNode*, ir::Array> writer_tapes_;
  std::map<ir::Array, ir::Array> initial_tapes_;
  std::map<const ir::StmtNode*, ir::Expr> saved_controls_;  // branch conditions and trip counts
  ForwardAdditions additions_;
  std::vector<ir::Array> tape_;
  std::set<std::string> names_;
};

}  // namespace loopgrad::tape
