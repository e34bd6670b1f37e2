// Nests over the rows of arrays, and how far apart their dependences are in rows.
#pragma once

#include "dsl/ir/program.h"
#include "dsl/poly/model.h"

#include <optional>

namespace loopgrad::transforms {

enum class RowKind {
  Rows,   // all the work of a row is in parallel loops, so that lanes run along it, or at its ends
  Ends,   // a few elements of each row, as borders are treated
  Other,  // any other parallel loop
};

/// A parallel loop, under conditions that are the same for all of its iterations.
struct RowNest {
  ir::Stmt statement;  // with the conditions
  ir::Stmt loop;
  std::vector<ir::Expr> conditions;
  RowKind kind = RowKind::Other;
  std::int64_t behind = 0;    // rows after the first nest's; so many at the end of a strip wait for the next one
  std::int64_t peel_low = 0;  // rows at the beginning of a strip that wait for the one before
  bool joins = false;         // the nest before: each row is one loop over the rows within both

  const ir::For& rows() const { return *loop.as<ir::For>(); }
};

/// nullopt for anything but a parallel loop, and where its bounds or conditions are data.
std::optional<RowNest> row_nest_of(const ir::Stmt& s);

/// The parallel loop that is all of a nest's row and has parallel loops inside, or null.
const ir::For* rows_within(const RowNest& nest);

/// How far apart in rows conflicting instances of two nests are: first - second is in [-up, down].
struct RowReach {
  std::int64_t up = 0, down = 0;
  bool shares = false;  // an array whose rows both go through
};

class RowDistances {
 public:
  /// Of the region that both nests are in.
  explicit RowDistances(poly::Model model) : model_(std::move(model)) {}

  /// nullopt where they are further apart than a few rows, or not known.
  std::optional<RowReach> between(const RowNest& first, const RowNest& second) const;
  /// Whether a row of both may be one loop over the rows within it: these are parallel and the same ones in both nests,
  /// and nothing in one of them depends on another one. The nests have their places in time.
  bool rows_within_match(const RowNest& first, const RowNest& second) const;
  /// Whether the nests read from an array only elements that they have assigned, all of them by assignments.
  bool assigned_before_read(const ir::Array& array, const std::vector<RowNest>& nests) const;
  /// Whether no instance of the one touches what one of the other changes.
  bool independent(const RowNest& a, const RowNest& b) const;

 private:
  bool extend(RowReach& reach, const poly::Statement& a, const poly::Statement& b) const;
  bool extend(RowReach& reach, const isl::map& pairs) const;
  bool match_within(const poly::Statement& a, const poly::Statement& b) const;
  isl::map conflicts(const poly::Statement& a, const poly::Access& x, const poly::Statement& b,
                     const poly::Access& y) const;

  poly::Model model_;
};

}  // namespace loopgrad::transforms
