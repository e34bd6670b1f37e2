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

Expr equals(const Expr& a, const Expr& b) { return ir::binary(BinaryOp::Eq, a, b); }

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
    return with_composites(ir::block({loaded(s, tile, {}), folded(), grouped(), last}));
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
  Stmt with_composites(const Stmt& body) const { return declared(steps_, declared(sums_, declared(totals_, body))); }
  Stmt with_memory(Stmt body) const {
    body = with_composites(body);
    if (composing_.may_want_order()) body = ir::allocate(in_order_, body, where_);
    return ir::allocate(starts_, ir::allocate(carry_, body, where_), where_);
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
        // Place q = k*threads + t of the tile: in_tile(q).
        const std::int64_t columns = shape_.threads / shape_.each;
        const std::vector<Expr> place = {mod(t, number(shape_.each)),
                                         k * number(columns) + div(t, number(shape_.each))};
        return body(place, tile * number(shape_.tile()) + k * number(shape_.threads) + t);
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
    const Stmt steps = by_neighbours(tile, [&](const std::vector<Expr>& place, const Expr& p) {
      Composite none = composing_.identity();
      for (Expr* e : {&none.factor, &none.term})
        if (*e) *e = ir::cast(type_, *e);
      return ir::if_then(less(p, s.count), put(steps_, place, s.step(p)), put(steps_, place, none));
    });
    if (!begin) return steps;
    const Stmt first = team([&](const Expr& t) { return ir::if_then(equals(t, number(0)), begin); });
    return ir::block({first, steps});
  }

  /// all = all and then next, where the term is set first.
  Stmt append(const Pair& all, const Composite& next) const {
    return put(all, {}, composing_.both(got(all, {}), next));
  }

  Stmt folded() const {
    return team([&](const Expr& t) {
      const Pair own = pair("own", {}, composing_.type());
      const Stmt each = forward("k", number(shape_.each), [&](const Expr& k) {
        return append(own, composing_.wide(got(steps_, {k, t})));
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
      if (const Expr again = composing_.want_order(carried, now)) {
        const Stmt own = forward("k", number(shape_.each), [&](const Expr& k) {
          return go(composing_.wide(got(steps_, {k, t})));
        });
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
      if (!composing_.may_want_order()) return ir::allocate(at, from_start);
      const Expr first = tile * number(shape_.tile());
      const Stmt steps = forward("q", ir::smaller(number(shape_.tile()), s.count - first), [&](const Expr& q) {
        return ir::block({s.in_order(first + q, at), set(values(), in_tile(q), now)});
      });
      const Stmt in_order =
          ir::if_then(equals(t, number(0)), ir::block({set(at, {}, get(carry_, {number(0)})), steps}));
      const Expr asked = ir::binary(BinaryOp::Ne, get(in_order_, {number(0)}), ir::int_const(0, ScalarType::I32));
      return ir::allocate(at, ir::if_then(asked, in_order, from_start));
    });
  }

  Stmt stored(const Sequence& s, const Expr& tile) const {
    const Stmt elements = by_neighbours(tile, [&](const std::vector<Expr>& place, const Expr& p) {
      return ir::if_then(less(p, s.count), s.store(p, get(values(), place)));
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

}  // namespace

TeamShape team_shape(std::int64_t threads, std::int64_t tile) {
  // So few that several blocks share a multiprocessor and wait for memory in turn.
  if (!threads) threads = 256;
  const std::int64_t group = threads < 128 ? 8 : 16;  // about as many groups as threads in one
  return {threads, group, std::clamp<std::int64_t>(tile / threads, 1, 8)};
}

Stmt rows_by_teams(const Recurrence& r, const LoopsAround& around, const TeamShape& shape) {
  const Composing composing(r);
  const TeamScan teams(composing, r.array->type, shape, r.where);
  Stmt row = teams.all(sequence_of(r));
  if (around.empty())
    row = ir::for_loop(ir::make_symbol("row"), number(0), number(1), row, LoopMode::Parallel, r.where);
  return ir::with_fresh_names(in_parallel(around, row));
}

Stmt tiles_by_teams(const Recurrence& r, const LoopsAround& around, const TeamShape& shape) {
  const Pieces tiles(r, around, number(shape.tile()), false);
  const Composing& composing = tiles.composing();
  const TeamScan teams(composing, r.array->type, shape, r.where), between(composing, composing.type(), shape, r.where);
  const auto each = [&](const char* name, const Expr& count, const auto& body) {
    const ir::Symbol i = ir::make_symbol(name);
    const Stmt all = ir::for_loop(i, number(0), count, body(ir::var(i)), LoopMode::Parallel, r.where);
    return ir::with_fresh_names(in_parallel(around, all));
  };
  const Sequence& steps = tiles.steps();
  const Stmt composed = each("tile", tiles.count(), [&](const Expr& tile) {
    return teams.composite(steps, tile, [&](const Composite& all) { return tiles.keep(tile, all); });
  });
  const Stmt middle = each("row", number(1), [&](const Expr&) { return between.all(tiles.as_steps()); });
  const Stmt gone_through = each("tile", tiles.count(), [&](const Expr& tile) {
    return teams.tile(steps, tile, [&] { return tiles.start_of(tile); });
  });
  return tiles.with_arrays(ir::block({composed, middle, gone_through}));
}

}  // namespace loopgrad::transforms
