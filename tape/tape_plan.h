// The tape plan: for every value of the primal program that the backward sweep needs, where it comes from.
//
// In order of preference, decided per read from the polyhedral model of the primal program:
//   direct        the array still holds the value when the backward sweep runs: read it there
//   recomputed    a local of a few elements, where the plan for all values (see value_plan.h) finds it cheaper to run
//                 the statements that write it again: once, at the start of the body that declares it; short
//                 expressions of values that are direct where they are read
//   kept          a local array that is not overwritten within its scope: the forward sweep keeps one copy per
//   iteration of
//                 the loops around its declaration, and that copy is the tape
//   writer's tape the element is overwritten, but isl's dataflow says exactly which statement instance wrote the value:
//   each
//                 writer saves what it writes at its own iterators, the read gets the index from the flow relation; a
//                 writer that goes through the array again and again saves it in the array's own shape
//   reader's tape otherwise: saved where it is read, at the reader's own iterators, so that an index always exists;
//                 moved out of inner loops that do not change the value
//   whole array   in place of several readers' tapes, where that is less: a copy of all elements, made where the array
//                 begins to be what they read; the read's own index finds its element there (copies_of_arrays.cpp)
// A branch condition that would need a tape is saved itself, as one bool; so is whether a `min=` or `max=` took its
// operand, unless the final value tells; a `while` saves its trip count.
#pragma once

#include "dsl/ir/rewriter.h"
#include "dsl/poly/dataflow.h"
#include "tape/gradient_program.h"
#include "tape/loop_extents.h"
#include "tape/value_plan.h"

#include <list>

namespace loopgrad::tape {

/// A local array that survives the iteration it belongs to.
struct KeptArray {
  ir::Array tape;
  std::vector<ir::Expr> leading;  // index of this iteration's copy
  bool at_scope_end = false;      // the array stays as it is and is copied at the end of its scope
};

/// What the forward sweep does in addition to the primal program.
struct ForwardAdditions {
  std::vector<std::pair<ir::Array, ir::Array>> initial;                // array and what it holds before everything
  std::map<const ir::StmtNode*, std::vector<ir::Stmt>> before, after;  // around a statement
  std::map<const ir::StmtNode*, std::vector<ir::Stmt>> at_body_start;  // of a while loop
  std::map<ir::Array, KeptArray> kept;
};

/// The backward generator asks for values, twice: first for the sake of decide_for(), which decides about all of them
/// together, then for the expressions, while what the forward sweep must save accumulates in `additions()`. The primal
/// program must not change in between.
class TapePlan {
 public:
  TapePlan(const Prepared& prepared, Report& report);

  /// `ask` asks for all values as it will later; what it is given is of no use.
  void decide_for(const std::function<void()>& ask);

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

  struct Supplied {
    ir::Expr load, guard, value;
    std::vector<ir::Stmt> within = {};  // only readers in these loops have it: it is not saved where one makes no trip
  };

  /// What isl said about a read.
  struct Asked {
    ir::Expr read;
    std::optional<bool> overwritten;
    std::optional<std::optional<poly::Dataflow>> writers;
  };

  void build_model();
  Asked& asked(const ir::Load& load, const ir::Stmt& site);
  const std::optional<poly::Dataflow>& writers_of(const ir::Load& load, const ir::Stmt& site);
  std::optional<poly::Dataflow> find_writers(const ir::Load& load, const ir::Stmt& site);
  std::optional<Sites::EarlierRead> reader_of(const ir::Load& load, const ir::Stmt& site) const;
  ir::Expr from_tape_of(const Sites::EarlierRead& first, const std::string& name);
  std::vector<ValuePlan::Storage> storage_of(const ir::Load& load, const ir::Stmt& site);
  /// Its extents at most, in sizes; nullopt where data say how long it is.
  std::optional<std::vector<ir::Expr>> largest_shape(const ir::Array& array) const;
  bool goes_through_as_many(const ir::Array& array, const ir::Stmt& at) const;
  bool covers(std::set<ir::Symbol> sizes, const ir::Stmt& s) const;
  bool can_be_copied(const ir::Array& array, const ir::Stmt& at);
  ir::Stmt place_of_copy(const ir::Load& load, const ir::Stmt& site);
  std::optional<ir::Expr> from_copy(const ir::Load& load, const ir::Stmt& site, const ir::Expr& guard,
                                    const std::string& why);
  ir::Array copy_in_front_of(const ir::Stmt& at, const ir::Array& array);
  std::optional<ir::Expr> copied(const ir::Stmt& writer);
  const Site& site_of(const ir::Stmt& s) const { return sites_.of(s); }
  /// Nothing where the model does not have it, or isl's budget has ended.
  std::optional<poly::Access> find_access(const ir::Load& load, const Site& site) const;
  const poly::Access* find_write(const Site& site) const;
  bool is_overwritten(const ir::Load& load, const ir::Stmt& site);

  // `guard`: the condition under which `site` reads the value, over primal values, or null (see guarded_loads.h).
  ir::Expr provide(const ir::Expr& e, const ir::Stmt& site, const ir::Expr& guard);
  std::vector<ir::Expr> provide_all(const std::vector<ir::Expr>& list, const ir::Stmt& site,
                                    const ir::Expr& guard = {});
  ir::Expr supply(const ir::Expr& load, const ir::Stmt& site, const ir::Expr& guard);
  const ir::Expr* already_supplied(const ir::Expr& load, const ir::Stmt& site, const ir::Expr& guard,
                                   const std::vector<ir::Stmt>& within = {}) const;
  std::optional<ir::Expr> without_tape(const ir::Expr& e, const ir::Stmt& site, int& budget);
  std::optional<ir::Expr> recomputed(const ir::Load& load, const ir::Stmt& site, int& budget);
  bool holds_at(const ir::Array& scalar, const ir::Stmt& site) const;
  std::optional<ir::Expr> computed_again(const ir::Load& load, const ir::Stmt& site, const ir::Expr& guard);
  const ir::Array& twin(const ir::Array& local);
  friend class AgainStatements;
  std::optional<ir::Expr> from_kept(const ir::Load& load, const ir::Stmt& site, const ir::Expr& guard);
  std::optional<ir::Expr> from_writers(const ir::Load& load, const ir::Stmt& site, const ir::Expr& guard);
  std::optional<ir::Expr> from_own_tape(const ir::Stmt& site);
  bool keeps_intermediate_extrema_secret(const ir::Reduce& site);
  ir::Stmt hoisted(const ir::Expr& value, const ir::Stmt& site) const;
  /// A loop between the place where a value is saved and the statement that reads it.
  struct LoopInside {
    ir::Stmt loop;
    bool chooses = false;  // the value: it is saved for each of its iterations
  };
  struct SavePlace {
    ir::Stmt at;                          // saved in front of it
    std::vector<LoopInside> inside = {};  // outermost first
    std::vector<ir::Stmt> loops = {};     // those of which a tape has dimensions
  };
  SavePlace place_to_save(const ir::Expr& value, const ir::Stmt& reader) const;
  ir::Expr save_at(const SavePlace& place, const ir::Expr& value, const std::string& name, const ir::Expr& guard);
  void refuse_to_save(const ir::Load& load, const ir::Stmt& site) const;
  void refuse_in_rule(const ir::Expr& value, const ir::Expr& guard, const ir::Stmt& site) const;
  ir::Expr from_reader(const ir::Expr& value, const std::string& name, const ir::Stmt& reader, const ir::Expr& guard,
                       const std::string& why);
  const KeptArray* keep(const ir::Array& array);
  ir::Array initial_contents(const ir::Array& array);
  std::optional<ir::Expr> value_from(const poly::Source& source, const ir::Load& load, const ir::Stmt& site,
                                     const ir::Expr& guard);

  bool is_sequential(const ir::Stmt& loop) const;
  std::vector<ir::Stmt> in_layout(std::vector<ir::Stmt> loops, bool for_lanes_only = false) const;
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
  ValuePlan values_;
  bool collecting_ = false;                                // decide_for() is asking
  std::map<ir::Array, ir::Array> twins_;                   // of locals that the backward sweep computes again, there
  std::map<const ir::StmtNode*, std::list<Asked>> asked_;  // by site
  std::map<const ir::StmtNode*, std::vector<Supplied>> supplied_;
  std::map<const ir::StmtNode*, ir::Array> writer_tapes_;
  std::map<const ir::StmtNode*, std::vector<std::pair<ir::Expr, ir::Expr>>> early_tapes_;  // by the statement that
                                                                                           // reads: what, and its place
  std::map<std::pair<const ir::StmtNode*, ir::Array>, ir::Array> copies_;                  // by where they are made
  std::map<std::pair<const ir::StmtNode*, ir::Array>, bool> set_in_front_of_;
  std::map<const ir::StmtNode*, ir::Expr> saved_controls_;  // branch conditions and trip counts
  ForwardAdditions additions_;
  std::vector<ir::Array> tape_;
  std::set<std::string> names_;
};

}  // namespace loopgrad::tape
