// Accesses of which neither the program nor the user's facts say that they stay within their arrays.
#pragma once

#include "dsl/ir/known_scalars.h"
#include "dsl/symbolic/ranges.h"

#include <map>
#include <optional>
#include <vector>

namespace loopgrad::transforms {

/// One index that may leave its extent, as far as bounds of loops tell one by one; see leaving_accesses.h for more.
struct OpenAccess {
  ir::Array array;
  std::size_t dimension = 0;
  ir::Expr index;                // with known scalars looked through
  ir::Expr when;                 // what must hold for the access to happen, beyond the statements around; null: nothing
  ir::Stmt statement;            // that makes it: its own expressions, not those of statements below it
  std::vector<ir::Stmt> around;  // the statements around that one, outermost first
  SourceLocation location;
  bool is_read = false;
  bool only_sizes = false;  // and iterators decide about the index, not data
  ir::Expr beyond;  // only_sizes: a bool of sizes; the index stays within the extent where it does not hold; or null
  bool is_known = false;  // before the program runs: nothing that it computes decides index, condition or loops
};

/// Says of an index whether it surely stays within an extent, and whether only data tell what it is. Ranges of
/// iterators follow from bounds of loops, those of loads from the facts InRange and CsrPointer.
class IndexRanges {
 public:
  explicit IndexRanges(const ir::Program& program);
  /// To be called for each loop before the statements in it.
  void enter(const ir::Stmt& loop);
  void enter(const ir::For& loop);
  /// Between these two, the loop that was entered makes a trip: its first and last one have their order.
  void begin_trip(const ir::Stmt& loop);
  void end_trip() { trips_.pop_back(); }
  /// Whether data decide: a load, or an iterator with such bounds. Tape arrays hold trip counts of bounded loops.
  bool is_from_data(const ir::Expr& index) const;
  /// In sizes; nullopt where nothing bounds it.
  std::optional<ir::Range> range_of(const ir::Expr& index) const { return ir::range_of(index, context_); }
  bool stays_within(const ir::Expr& index, const ir::Expr& extent) const;
  /// A bool of sizes: where it does not hold, the index stays within the extent. Null where ranges do not say.
  ir::Expr beyond(const ir::Expr& index, const ir::Expr& extent) const;

 private:
  std::optional<ir::Range> range_of_leaf(const ir::Expr& leaf) const;
  std::optional<ir::Range> range_of_row(const ir::Load& first) const;
  void find_names(const ir::Program& program);
  bool is_surely_not_negative(const ir::Expr& e) const;
  bool is_not_negative_for_all_rows(const ir::Expr& e) const;
  bool is_not_negative_here(const ir::Expr& e) const;
  ir::Expr least(const ir::Expr& e) const;

  const ir::Program& program_;
  ir::RangeContext context_;
  std::set<ir::Symbol> from_data_;
  std::vector<ir::Expr> trips_;  // how far the last trip of each loop around is from the first one: not negative
  std::set<ir::Array> written_;
  std::map<ir::Array, ir::Expr> names_;  // scalars with one assignment, and what they are assigned
  mutable std::set<ir::Array> asked_;    // scalars whose range is being found
};

/// All of them in the order of evaluation. Places on the tape that data decide are left out, as their extents follow
/// from the trips of the loops; others are not, as a tape can stand for a local array or have the form of one that is
/// written.
/// `computed`: inputs of which nobody has looked at what is in them before the run.
std::vector<OpenAccess> open_accesses(const ir::Program& program, const std::set<ir::Array>& computed = {});

}  // namespace loopgrad::transforms
