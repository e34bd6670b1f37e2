// Which loops run over the entries of rows of CSR structures: `for e in pointer[row]..pointer[row + 1]`, a part of
// that, or the rest of a row from an entry that a loop around is at.
#pragma once

#include "dsl/poly/pieces.h"
#include "dsl/symbolic/flat_index.h"

namespace loopgrad::poly {

class RowLoops {
 public:
  /// The facts must outlive it.
  RowLoops(const ir::Program& program, const Facts& facts, std::shared_ptr<Context> context)
      : facts_(facts), numbering_(program.sizes, false), context_(std::move(context)) {}

  /// Notes what the place inside of the loop is of a row, if any. Whether the loop runs over all of one.
  bool note(Place& place, const ir::For& node) const;

 private:
  void note_rest_of_row(Place& place, const ir::For& node) const;
  static const CsrLoop* row_at(const Place& place, const ir::Expr& entry);
  bool is_end(const Place& place, const ir::Expr& bound, const CsrLoop& row, std::int64_t after) const;
  bool note_row_of_grid(Place& place, const ir::Load& lower, const ir::Load& upper) const;
  bool stays_within(const Place& place, const ir::Expr& digit, const ir::Expr& extent) const;

  const Facts& facts_;
  const ir::FlatIndices numbering_;
  const std::shared_ptr<Context> context_;
};

}  // namespace loopgrad::poly
