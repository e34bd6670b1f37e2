#include "transforms/sums/scans/piece_scan.h"

#include "dsl/ir/rewriter.h"

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::Stmt;

namespace {

class PieceScan : LoopBuilder {
 public:
  PieceScan(const Recurrence& r, const LoopsAround& around, const Expr& length)
      : LoopBuilder(r.where), r_(r), around_(around), pieces_(r, around, length, true) {}

  Stmt code() const { return pieces_.with_arrays(ir::block({composed(), between(), gone_through()})); }

 private:
  /// body(piece) for all pieces of all rows, neighbouring rows side by side.
  template <class Body>
  Stmt each_piece(Body body) const {
    return ir::with_fresh_names(
        parallel("piece", pieces_.count(), [&](const Expr& piece) { return in_parallel(around_, body(piece)); }));
  }

  Stmt composed() const {
    const Composing& composing = pieces_.composing();
    return each_piece([&](const Expr& piece) {
      const Array factor = composing.has_factor() ? local("factor", {}, composing.type()) : Array();
      const Array term = composing.has_term() ? local("term", {}, composing.type()) : Array();
      const Composite now = {factor ? get(factor, {}) : Expr(), term ? get(term, {}) : Expr()};
      const auto put = [&](const Composite& c) {
        return ir::block({term ? set(term, {}, c.term) : Stmt(), factor ? set(factor, {}, c.factor) : Stmt()});
      };
      const Stmt each = pieces_.each_step(piece, [&](const Expr& p) {
        const Composite step = composing.wide(pieces_.steps().step(p));
        if (composing.is_sum()) return ir::reduce(term, {}, ir::ReduceOp::Add, step.term, where_);
        return put(composing.both(now, step));
      });
      Stmt all = ir::block({put(composing.identity()), each, pieces_.keep(piece, now)});
      for (const Array& array : {factor, term})
        if (array) all = ir::allocate(array, all, where_);
      return all;
    });
  }

  Stmt between() const {
    const Sequence steps = pieces_.as_steps();
    const Array at = local("at", {}, pieces_.composing().type());
    const Stmt each = forward("piece", steps.count, [&](const Expr& piece) {
      return ir::block({steps.in_order(piece, at), steps.store(piece, get(at, {}))});
    });
    const Stmt row = ir::allocate(at, ir::block({set(at, {}, steps.start()), each}), where_);
    return ir::with_fresh_names(in_parallel(around_, row));
  }

  Stmt gone_through() const {
    return each_piece([&](const Expr& piece) {
      const Array at = local("at", {}, r_.array->type);
      const Sequence& steps = pieces_.steps();
      const Stmt each = pieces_.each_step(piece, [&](const Expr& p) {
        return ir::block(
            {set(at, {}, pieces_.composing().stepped(steps.step(p), get(at, {}))), steps.store(p, get(at, {}))});
      });
      return ir::allocate(at, ir::block({set(at, {}, pieces_.start_of(piece)), each}), where_);
    });
  }

  const Recurrence& r_;
  const LoopsAround& around_;
  const Pieces pieces_;
};

}  // namespace

Stmt scan_by_pieces(const Recurrence& r, const LoopsAround& around, const Expr& length) {
  return PieceScan(r, around, length).code();
}

}  // namespace loopgrad::transforms
