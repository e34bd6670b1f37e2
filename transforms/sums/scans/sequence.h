// A recurrence as a sequence of steps by number, and as one of pieces of it.
#pragma once

#include "transforms/sums/scans/composites.h"

namespace loopgrad::transforms {

/// Steps: where they come from and where the values after them go.
struct Sequence {
  ir::Expr count;
  std::function<Composite(const ir::Expr& p)> step;                             // of the type of the value
  std::function<ir::Stmt(const ir::Expr& p, const ir::Expr& value)> store;      // the value after step p
  std::function<ir::Expr()> start;                                              // before the first, if there is one
  std::function<ir::Stmt(const ir::Expr& p, const ir::Array& value)> in_order;  // step p on a scalar, as written
  std::function<ir::Expr(const ir::Expr& p, const ir::Expr& value)> next;       // a recurrence's own: what it comes to
};

/// The recurrence's own, whose steps are its iterations. It must outlive what it returns.
Sequence sequence_of(const Recurrence& r);
/// How often the loop runs.
ir::Expr trips_of(const Recurrence& r);

using LoopsAround = std::vector<const ir::For*>;  // outermost first

/// `body` in parallel loops like these.
ir::Stmt in_parallel(const LoopsAround& around, ir::Stmt body);

/// Pieces of a recurrence, `length` iterations each, in loops around it: what each does, and what is left after it.
class Pieces : public LoopBuilder {
 public:
  /// `pieces_first`: neighbours along the loops around are neighbours in the arrays, else those of a row are. `count`
  /// pieces; 0: as many as there are, the last one maybe shorter.
  Pieces(const Recurrence& r, const LoopsAround& around, const ir::Expr& length, bool pieces_first,
         std::int64_t count = 0);

  const Composing& composing() const { return composing_; }
  const Sequence& steps() const { return steps_; }
  const ir::Expr& count() const { return count_; }
  ir::Stmt keep(const ir::Expr& piece, const Composite& all) const;
  /// What a piece starts from, in the type of the value.
  ir::Expr start_of(const ir::Expr& piece) const;
  /// A step for each piece. One whose composite is lost goes through its iterations, unless the value is lost anyway.
  Sequence as_steps() const;
  /// body(p) for the steps of a piece, in order.
  template <class Body>
  ir::Stmt each_step(const ir::Expr& piece, Body body) const {
    const ir::Expr first = piece * length_;
    return forward("q", ir::smaller(length_, steps_.count - first), [&](const ir::Expr& q) { return body(first + q); });
  }
  ir::Stmt with_arrays(ir::Stmt body) const;

 private:
  std::vector<ir::Expr> at(const ir::Expr& piece) const;
  ir::Stmt in_order(const ir::Expr& piece, const ir::Array& value) const;
  Composite kept(const ir::Expr& piece) const;

  const Recurrence& r_;
  const ir::Expr length_;
  const bool pieces_first_;
  const Composing composing_;
  const Sequence steps_;
  std::vector<ir::Expr> row_;
  ir::Expr count_;
  ir::Array factor_, term_, after_;
};

}  // namespace loopgrad::transforms
