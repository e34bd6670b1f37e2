#include "transforms/sums/scans/piece_scan.h"

#include "dsl/ir/rewriter.h"

namespace loopgrad::transforms {

using ir::Array;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

/// Pieces one after the other, by one thread for each row.
class InOrder : LoopBuilder {
 public:
  InOrder(const Pieces& pieces, const SourceLocation& where) : LoopBuilder(where), pieces_(pieces) {}

  Stmt code(const LoopsAround& around) const {
    const Sequence steps = pieces_.as_steps();
    const Array at = local("at", {}, pieces_.composing().type());
    const Stmt each = forward("piece", steps.count, [&](const Expr& piece) {
      return ir::block({steps.in_order(piece, at), steps.store(piece, get(at, {}))});
    });
    const Stmt row = ir::allocate(at, ir::block({set(at, {}, steps.start()), each}), where_);
    return ir::with_fresh_names(in_parallel(around, row));
  }

 private:
  const Pieces& pieces_;
};

Stmt composed_in_order(const Pieces& pieces, const LoopsAround& around, const SourceLocation& where) {
  return InOrder(pieces, where).code(around);
}

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

  Stmt between() const { return composed_in_order(pieces_, around_, where_); }

  Stmt gone_through() const {
    return each_piece([&](const Expr& piece) {
      const Array at = local("at", {}, r_.array->type);
      const Sequence& steps = pieces_.steps();
      const Stmt each = pieces_.each_step(piece, [&](const Expr& p) {
        return ir::block({steps.in_order(p, at), steps.store(p, get(at, {}))});
      });
      return ir::allocate(at, ir::block({set(at, {}, pieces_.start_of(piece)), each}), where_);
    });
  }

  const Recurrence& r_;
  const LoopsAround& around_;
  const Pieces pieces_;
};

/// As above, with a loop over lanes inside of the steps.
class LaneScan : LoopBuilder {
 public:
  LaneScan(const Recurrence& r, const LoopsAround& around, std::int64_t groups, std::int64_t lanes)
      : LoopBuilder(r.where),
        r_(r),
        around_(around),
        groups_(groups),
        lanes_(lanes),
        length_(apart(div(trips_of(r), number(groups * lanes)))),
        pieces_(r, around, length_, true, groups * lanes) {}

  Stmt code() const {
    const Stmt scan = pieces_.with_arrays(ir::block({composed(), between(), gone_through(), left_over()}));
    return scan;
  }

 private:
  /// At most that long, and such that what lanes touch at once is not in one set of a cache: an odd number of half
  /// lines of f32 from each other.
  static Expr apart(const Expr& most) {
    const Expr odd = div(most - number(16), number(32)) * number(32) + number(16);
    return ir::select(at_least(most, least_apart), odd, most);
  }
  static constexpr std::int64_t least_apart = 512;

  template <class Body>
  Stmt each_group(Body body) const {
    return ir::with_fresh_names(
        in_parallel(around_, parallel("group", number(groups_), [&](const Expr& group) { return body(group); })));
  }
  template <class Body>
  Stmt each_lane(const Expr& group, Body body) const {
    return parallel("lane", number(lanes_),
                    [&](const Expr& lane) { return body(lane, group * number(lanes_) + lane); });
  }
  Array of_lanes(const char* name, ScalarType type) const { return local(name, {number(lanes_)}, type); }

  Stmt composed() const {
    const Composing& composing = pieces_.composing();
    return each_group([&](const Expr& group) {
      const Array factor = composing.has_factor() ? of_lanes("factor", composing.type()) : Array();
      const Array term = composing.has_term() ? of_lanes("term", composing.type()) : Array();
      const auto got = [&](const Expr& lane) {
        return Composite{factor ? get(factor, {lane}) : Expr(), term ? get(term, {lane}) : Expr()};
      };
      const auto put = [&](const Expr& lane, const Composite& c) {
        return ir::block({term ? set(term, {lane}, c.term) : Stmt(), factor ? set(factor, {lane}, c.factor) : Stmt()});
      };
      const auto lanes = [&](const auto& body) { return each_lane(group, body); };
      const Stmt none = lanes([&](const Expr& lane, const Expr&) { return put(lane, composing.identity()); });
      const Stmt steps = forward("q", length_, [&](const Expr& q) {
        return lanes([&](const Expr& lane, const Expr& piece) {
          return put(lane, composing.both(got(lane), composing.wide(pieces_.steps().step(piece * length_ + q))));
        });
      });
      const Stmt kept = lanes([&](const Expr& lane, const Expr& piece) { return pieces_.keep(piece, got(lane)); });
      Stmt all = ir::block({none, steps, kept});
      for (const Array& array : {factor, term})
        if (array) all = ir::allocate(array, all, where_);
      return all;
    });
  }

  Stmt between() const { return composed_in_order(pieces_, around_, where_); }

  Stmt gone_through() const {
    return each_group([&](const Expr& group) {
      const Array at = of_lanes("at", r_.array->type);
      const Sequence& steps = pieces_.steps();
      const auto lanes = [&](const auto& body) { return each_lane(group, body); };
      const Stmt begin =
          lanes([&](const Expr& lane, const Expr& piece) { return set(at, {lane}, pieces_.start_of(piece)); });
      const Stmt each = forward("q", length_, [&](const Expr& q) {
        return lanes([&](const Expr& lane, const Expr& piece) {
          const Expr p = piece * length_ + q;
          return ir::block({set(at, {lane}, steps.next(p, get(at, {lane}))), steps.store(p, get(at, {lane}))});
        });
      });
      return ir::allocate(at, ir::block({begin, each}), where_);
    });
  }

  Stmt left_over() const {
    const Array at = local("at", {}, r_.array->type);
    const Sequence& steps = pieces_.steps();
    const Expr done = length_ * number(groups_ * lanes_);
    const Stmt each = loop("q", done, steps.count, LoopMode::Forward, [&](const Expr& p) {
      return ir::block({steps.in_order(p, at), steps.store(p, get(at, {}))});
    });
    const Stmt begin = set(at, {}, pieces_.start_of(number(groups_ * lanes_)));
    return ir::with_fresh_names(in_parallel(around_, ir::allocate(at, ir::block({begin, each}), where_)));
  }

  const Recurrence& r_;
  const LoopsAround& around_;
  const std::int64_t groups_, lanes_;
  const Expr length_;
  const Pieces pieces_;
};

}  // namespace

Stmt scan_by_pieces(const Recurrence& r, const LoopsAround& around, const Expr& length) {
  return PieceScan(r, around, length).code();
}

Stmt scan_by_lanes(const Recurrence& r, const LoopsAround& around, std::int64_t groups, std::int64_t lanes) {
  return LaneScan(r, around, groups, lanes).code();
}

}  // namespace loopgrad::transforms
