#include "transforms/sums/scans/team_scan.h"

#include "dsl/ir/rewriter.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"

#include <algorithm>

namespace loopgrad::transforms {

using ir::Array;
using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

constexpr std::int64_t memory_banks = 32;  // of a multiprocessor

Expr less(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Lt, a, b); }
Expr equals(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Eq, a, b); }
Expr both(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::And, a, b); }
Expr negated(const Expr& e) { return ir::unary(ir::UnaryOp::Not, e); }

/// A sequence of steps: where they come from and where the values after them go.
struct Sequence {
  Expr count;
  std::function<Composite(const Expr& p)> step;                     // of the type of the value
  std::function<Stmt(const Expr& p, const Expr& value)> store;      // the value after step p
  std::function<Expr()> start;                                      // the value before the first; only where count > 0
  std::function<Stmt(const Expr& p, const Array& value)> in_order;  // step p on a scalar, without composites
};

/// Arrays with a factor, a term, or both.
struct Pair {
  Array factor, term;
};

class TeamScan : LoopBuilder {
 public:
  TeamScan(const Composing& composing, ScalarType type, const TeamShape& shape, const SourceLocation& where)
      : LoopBuilder(where), composing_(composing), type_(type), shape_(shape), groups_(shape.threads / shape.group) {
    const std::int64_t spare = std::max<std::int64_t>(memory_banks / shape.each, 1);
    steps_ = pair("step", {number(shape.each), number(shape.threads + spare)}, type);
    sums_ = pair("sum", {number(shape.group), number(groups_ + 1)}, composing.type());
    totals_ = pair("total", {number(groups_)}, composing.type());
    starts_ = local("start", {number(shape.threads)}, composing.type());
    carry_ = local("carry", {number(1)}, type);
    in_order_ = local("in_order", {number(1)}, ScalarType::I32);
  }

  /// All of the sequence, tile after tile.
  Stmt all(const Sequence& s) const {
    const Stmt tiles = forward("tile", ceil_div(s.count, number(shape_.tile())), [&](const Expr& tile) {
      return one(s, tile, [&] { return ir::if_then(equals(tile, number(0)), set(carry_, {number(0)}, s.start())); });
    });
    return with_memory(tiles);
  }

  /// Tile `tile`, from start().
  template <class Start>
  Stmt tile(const Sequence& s, const Expr& tile, Start start) const {
    return with_memory(one(s, tile, [&] { return set(carry_, {number(0)}, start()); }));
  }

  /// The composite of tile `tile`, for set(composite).
  template <class Set>
  Stmt composite(const Sequence& s, const Expr& tile, Set set_composite) const {
    const Stmt last = team([&](const Expr& t) {
      const Pair all = pair("all", {}, composing_.type());
      const Stmt groups = forward("g", number(groups_), [&](const Expr& g) {
        return put(all, {}, composing_.both(got(all, {}), got(totals_, {g})));
      });
      return ir::if_then(
          equals(t, number(0)),
          declared(all, ir::block({put(all, {}, composing_.identity()), groups, set_composite(got(all, {}))})));
    });
    return with_memory(ir::block({loaded(s, tile, {}), folded(), grouped(), last}));
  }

 private:
  Pair pair(const char* name, const std::vector<Expr>& shape, ScalarType type) const {
    Pair result;
    if (composing_.has_factor()) result.factor = local(std::string(name) + "_factor", shape, type);
    if (composing_.has_term()) result.term = local(std::string(name) + "_term", shape, type);
    return result;
  }
  Composite got(const Pair& p, const std::vector<Expr>& at) const {
    return {p.factor ? get(p.factor, at) : Expr(), p.term ? get(p.term, at) : Expr()};
  }
  /// Terms first: they read the old factors of nothing.
  Stmt put(const Pair& p, const std::vector<Expr>& at, const Composite& c) const {
    std::vector<Stmt> result;
    if (p.term) result.push_back(set(p.term, at, c.term));
    if (p.factor) result.push_back(set(p.factor, at, c.factor));
    return ir::block(std::move(result));
  }
  Stmt declared(const Pair& p, Stmt body) const {
    for (const Array& array : {p.factor, p.term})
      if (array) body = ir::allocate(array, body, where_);
    return body;
  }
  Stmt with_memory(Stmt body) const {
    body = declared(steps_, declared(sums_, declared(totals_, body)));
    return ir::allocate(starts_, ir::allocate(carry_, ir::allocate(in_order_, body, where_), where_), where_);
  }

  template <class Body>
  Stmt team(Body body) const {
    return parallel("t", number(shape_.threads), body);
  }
  std::vector<Expr> in_tile(const Expr& q) const { return {mod(q, number(shape_.each)), div(q, number(shape_.each))}; }
  std::vector<Expr> of_thread(const Expr& t) const {
    return {mod(t, number(shape_.group)), div(t, number(shape_.group))};
  }
  template <class Body>
  Stmt by_neighbours(const Expr& tile, Body body) const {
    return team([&](const Expr& t) {
      return forward("k", number(shape_.each), [&](const Expr& k) {
        const Expr q = k * number(shape_.threads) + t;
        return body(q, tile * number(shape_.tile()) + q);
      });
    });
  }

  template <class Begin>
  Stmt one(const Sequence& s, const Expr& tile, Begin begin) const {
    return ir::block(
        {loaded(s, tile, begin()), folded(), grouped(), started(), gone_through(s, tile), stored(s, tile)});
  }

  /// Steps that do not exist change nothing.
  Stmt loaded(const Sequence& s, const Expr& tile, const Stmt& begin) const {
    const Stmt steps = by_neighbours(tile, [&](const Expr& q, const Expr& p) {
      Composite none = composing_.identity();
      for (Expr* e : {&none.factor, &none.term})
        if (*e) *e = ir::cast(type_, *e);
      return ir::if_then(less(p, s.count), put(steps_, in_tile(q), s.step(p)), put(steps_, in_tile(q), none));
    });
    if (!begin) return steps;
    const Stmt first = team([&](const Expr& t) { return ir::if_then(equals(t, number(0)), begin); });
    return ir::block({first, steps});
  }

  Composite wide(const Composite& c) const {
    const auto as = [&](const Expr& e) { return e ? ir::cast(composing_.type(), e) : e; };
    return {as(c.factor), as(c.term)};
  }

  /// all = all and then next, where the term is set first.
  Stmt append(const Pair& all, const Composite& next) const {
    return put(all, {}, composing_.both(got(all, {}), next));
  }

  Stmt folded() const {
    return team([&](const Expr& t) {
      const Pair own = pair("own", {}, composing_.type());
      const Stmt each = forward("k", number(shape_.each), [&](const Expr& k) {
        return append(own, wide(got(steps_, {k, t})));
      });
      return declared(own,
                      ir::block({put(own, {}, composing_.identity()), each, put(sums_, of_thread(t), got(own, {}))}));
    });
  }

  /// Makes sums what comes before a thread in its group, and totals those of the groups.
  Stmt grouped() const {
    return team([&](const Expr& t) {
      const Pair run = pair("run", {}, composing_.type()), next = pair("next", {}, composing_.type());
      const Stmt each = forward("k", number(shape_.group), [&](const Expr& k) {
        return declared(next, ir::block({put(next, {}, got(sums_, {k, t})), put(sums_, {k, t}, got(run, {})),
                                         append(run, got(next, {}))}));
      });
      const Stmt column = ir::block({put(run, {}, composing_.identity()), each, put(totals_, {t}, got(run, {}))});
      return ir::if_then(less(t, number(groups_)), declared(run, column));
    });
  }

  /// Where each thread starts, and whether what the last one comes to was lost on the way.
  Stmt started() const {
    return team([&](const Expr& t) {
      const Array at = local("at", {}, composing_.type());
      const Expr now = get(at, {}), carried = get(carry_, {number(0)});
      const auto go = [&](const Composite& c) { return set(at, {}, composing_.applied(c, now)); };
      const Stmt groups = forward("g", number(groups_), [&](const Expr& g) {
        return ir::if_then(less(g, div(t, number(shape_.group))), go(got(totals_, {g})));
      });
      std::vector<Stmt> body = {set(at, {}, ir::cast(composing_.type(), carried)), groups, go(got(sums_, of_thread(t))),
                                set(starts_, {t}, now)};
      if (const Expr lost = composing_.is_lost(now)) {
        const Stmt own = forward("k", number(shape_.each), [&](const Expr& k) {
          return go(wide(got(steps_, {k, t})));
        });
        const Expr again = both(lost, negated(composing_.is_lost(carried)));
        const Stmt say = set(in_order_, {number(0)},
                             ir::select(again, ir::int_const(1, ScalarType::I32), ir::int_const(0, ScalarType::I32)));
        body.push_back(ir::if_then(equals(t, number(shape_.threads - 1)), ir::block({own, say})));
      }
      return ir::allocate(at, ir::block(std::move(body)));
    });
  }

  /// The array of steps that takes the values after them.
  const Array& values() const { return steps_.term ? steps_.term : steps_.factor; }

  Stmt gone_through(const Sequence& s, const Expr& tile) const {
    return team([&](const Expr& t) {
      const Array at = local("at", {}, type_);
      const Expr now = get(at, {});
      const Stmt own = forward("k", number(shape_.each), [&](const Expr& k) {
        return ir::block({set(at, {}, composing_.stepped(got(steps_, {k, t}), now)), set(values(), {k, t}, now)});
      });
      const Stmt from_start = ir::block({set(at, {}, ir::cast(type_, get(starts_, {t}))), own});
      if (!composing_.is_lost(now)) return ir::allocate(at, from_start);
      const Expr first = tile * number(shape_.tile());
      const Stmt steps = forward("q", ir::smaller(number(shape_.tile()), s.count - first), [&](const Expr& q) {
        return ir::block(
            {s.in_order ? s.in_order(first + q, at) : set(at, {}, composing_.stepped(got(steps_, in_tile(q)), now)),
             set(values(), in_tile(q), now)});
      });
      const Stmt in_order =
          ir::if_then(equals(t, number(0)), ir::block({set(at, {}, get(carry_, {number(0)})), steps}));
      const Expr asked = ir::binary(BinaryOp::Ne, get(in_order_, {number(0)}), ir::int_const(0, ScalarType::I32));
      return ir::allocate(at, ir::if_then(asked, in_order, from_start));
    });
  }

  Stmt stored(const Sequence& s, const Expr& tile) const {
    const Stmt elements = by_neighbours(tile, [&](const Expr& q, const Expr& p) {
      return ir::if_then(less(p, s.count), s.store(p, get(values(), in_tile(q))));
    });
    const Stmt carry = team([&](const Expr& t) {
      return ir::if_then(equals(t, number(0)),
                         set(carry_, {number(0)}, get(values(), in_tile(number(shape_.tile() - 1)))));
    });
    return ir::block({elements, carry});
  }

  const Composing composing_;
  const ScalarType type_;
  const TeamShape shape_;
  const std::int64_t groups_;
  Pair steps_, sums_, totals_;
  Array starts_, carry_, in_order_;
};

/// The recurrence's own sequence.
Sequence sequence_of(const Recurrence& r) {
  const ir::For& loop = *r.loop;
  const bool down = loop.mode == LoopMode::Backward;
  const auto at = [&loop, down](const Expr& e, const Expr& p) {
    if (!e) return e;
    const Expr i = simplify_indices(down ? loop.upper - number(1) - p : loop.lower + p);
    return simplify_indices(ir::substitute(e, {{loop.iterator, i}}));
  };
  const Update& u = r.update;
  Sequence s;
  s.count = trips_of(r);
  s.step = [u, at](const Expr& p) { return Composite{at(u.factor, p), at(u.term, p)}; };
  s.store = [&r, at](const Expr& p, const Expr& value) {
    std::vector<Expr> indices;
    for (const Expr& e : r.indices) indices.push_back(at(e, p));
    return ir::assign(r.array, indices, value, r.where);
  };
  s.start = [&r] { return r.start; };
  return s;
}

Stmt in_parallel(const std::vector<const ir::For*>& around, Stmt body) {
  for (auto it = around.rbegin(); it != around.rend(); ++it)
    body =
        ir::for_loop((*it)->iterator, (*it)->lower, (*it)->upper, std::move(body), LoopMode::Parallel, (*it)->location);
  return body;
}

/// Tiles of one recurrence as a sequence of their own.
class Tiles : LoopBuilder {
 public:
  Tiles(const Recurrence& r, const std::vector<const ir::For*>& around, const TeamShape& shape)
      : LoopBuilder(r.where), r_(r), around_(around), shape_(shape), composing_(r), own_(sequence_of(r)) {
    std::vector<Expr> extents;
    for (const ir::For* loop : around) {
      extents.push_back(ir::larger(simplify_indices(loop->upper - loop->lower), number(0)));
      row_.push_back(simplify_indices(ir::var(loop->iterator) - loop->lower));
    }
    count_ = ceil_div(own_.count, number(shape.tile()));
    extents.push_back(ir::larger(count_, number(0)));
    if (composing_.has_factor()) factor_ = local("tile_factor", extents, composing_.type());
    if (composing_.has_term()) term_ = local("tile_term", extents, composing_.type());
    after_ = local("after_tile", extents, composing_.type());
  }

  Stmt code() const {
    const TeamScan teams(composing_, r_.array->type, shape_, where_);
    const auto each_tile = [&](const auto& body) {
      return ir::with_fresh_names(in_parallel(around_, parallel("tile", count_, body)));
    };
    const Stmt composites = each_tile([&](const Expr& tile) {
      return teams.composite(own_, tile, [&](const Composite& c) {
        std::vector<Stmt> result;
        if (factor_) result.push_back(set(factor_, at(tile), c.factor));
        if (term_) result.push_back(set(term_, at(tile), c.term));
        return ir::block(std::move(result));
      });
    });
    const TeamScan between(composing_, composing_.type(), shape_, where_);
    const Stmt middle = ir::with_fresh_names(
        in_parallel(around_, parallel("row", number(1), [&](const Expr&) { return between.all(of_tiles()); })));
    const Stmt rest = each_tile([&](const Expr& tile) {
      return teams.tile(own_, tile, [&] {
        const Expr before = get(after_, at(tile - number(1)));
        return ir::select(equals(tile, number(0)), own_.start(), ir::cast(r_.array->type, before));
      });
    });
    Stmt all = ir::block({composites, middle, rest});
    for (const Array& array : {factor_, term_, after_})
      if (array) all = ir::allocate(array, all, where_);
    return all;
  }

 private:
  std::vector<Expr> at(const Expr& tile) const {
    std::vector<Expr> result = row_;
    result.push_back(tile);
    return result;
  }

  Sequence of_tiles() const {
    Sequence s;
    s.count = count_;
    s.step = [this](const Expr& p) {
      return Composite{factor_ ? get(factor_, at(p)) : Expr(), term_ ? get(term_, at(p)) : Expr()};
    };
    s.store = [this](const Expr& p, const Expr& value) { return set(after_, at(p), value); };
    s.start = [this] { return ir::cast(composing_.type(), own_.start()); };
    s.in_order = [this, s](const Expr& p, const Array& value) { return tile_in_order(s.step(p), p, value); };
    return s;
  }

  /// A tile whose composite is lost goes through its iterations, unless the value is lost anyway.
  Stmt tile_in_order(const Composite& step, const Expr& tile, const Array& value) const {
    const Array next = local("next", {}, composing_.type()), own = local("own", {}, r_.array->type);
    const Expr now = get(next, {}), before = get(value, {});
    const Expr first = tile * number(shape_.tile());
    const Stmt each = forward("q", ir::smaller(number(shape_.tile()), own_.count - first), [&](const Expr& q) {
      return set(own, {}, composing_.stepped(own_.step(first + q), get(own, {})));
    });
    const Stmt elements = ir::allocate(own, ir::block({set(own, {}, ir::cast(r_.array->type, before)), each,
                                                       set(next, {}, ir::cast(composing_.type(), get(own, {})))}));
    const Expr again = both(composing_.is_lost(now), negated(composing_.is_lost(before)));
    return ir::allocate(next, ir::block({set(next, {}, composing_.applied(step, before)), ir::if_then(again, elements),
                                         set(value, {}, now)}));
  }

  const Recurrence& r_;
  const std::vector<const ir::For*>& around_;
  const TeamShape shape_;
  const Composing composing_;
  const Sequence own_;
  std::vector<Expr> row_;
  Expr count_;
  Array factor_, term_, after_;
};

}  // namespace

Expr trips_of(const Recurrence& r) { return simplify_indices(r.loop->upper - r.loop->lower); }

Stmt rows_by_teams(const Recurrence& r, const std::vector<const ir::For*>& around, const TeamShape& shape) {
  const Composing composing(r);
  const TeamScan teams(composing, r.array->type, shape, r.where);
  Stmt row = teams.all(sequence_of(r));
  if (around.empty())
    row = ir::for_loop(ir::make_symbol("row"), number(0), number(1), row, LoopMode::Parallel, r.where);
  return ir::with_fresh_names(in_parallel(around, row));
}

Stmt tiles_by_teams(const Recurrence& r, const std::vector<const ir::For*>& around, const TeamShape& shape) {
  return Tiles(r, around, shape).code();
}

}  // namespace loopgrad::transforms
