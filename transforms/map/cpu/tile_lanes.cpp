#include "transforms/map/cpu/tile_lanes.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/shift_loop.h"
#include "transforms/loops/split_loops_at_guards.h"

#include <algorithm>
#include <set>

namespace loopgrad::transforms {
namespace {

using ir::Array;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

constexpr std::int64_t bytes_of_lanes = 256;          // four vector registers of 64 bytes
constexpr std::int64_t least_lanes = 16;              // with which lanes beat sums that are vectorised by themselves
constexpr std::int64_t largest_private_bytes = 8192;  // of one local array after expansion by lanes

bool is_sequential_for(const Stmt& s) {
  const auto* loop = s.as<ir::For>();
  return loop && loop->mode != LoopMode::Parallel;
}

/// What depends on the lane: the iterator itself, scalars of the iteration, and reads at lane-dependent places.
class LaneDependence {
 public:
  LaneDependence(const ir::Symbol& lane, const Stmt& body) : lane_(lane) {
    ir::walk_stmts(body, [&](const Stmt& s) {
      if (const auto* a = s.as<ir::Allocate>()) private_.insert(a->array);
    });
  }
  bool on_iterator(const Expr& e) const { return mentions(e, lane_); }
  bool on_data(const Expr& e) const {
    bool found = false;
    ir::walk(e, [&](const Expr& x) {
      const auto* l = x.as<ir::Load>();
      if (!l) return;
      found |= private_.count(l->array) != 0;
      for (const Expr& index : l->indices) found |= on_iterator(index);
    });
    return found;
  }
  bool any(const Expr& e) const { return on_iterator(e) || on_data(e); }

 private:
  ir::Symbol lane_;
  std::set<Array> private_;
};

/// The smallest and largest value of a bound over lanes first, ..., first + count - 1.
std::optional<ir::Range> over_lanes(const Expr& e, const ir::Symbol& lane, const Expr& first, const Expr& count) {
  ir::RangeContext context;
  context.variables[lane] = {first, first + count - ir::int_const(1)};
  context.leaf = [](const Expr& leaf) { return std::optional(ir::Range{leaf, leaf}); };
  return ir::range_of(e, context);
}

/// Whether the body can be run in lanes, and whether that pays.
class Eligibility {
 public:
  explicit Eligibility(const ir::For& loop) : loop_(loop), depends_(loop.iterator, loop.body) {}

  bool check() {
    if (!contains_loop(loop_.body) || !legal(loop_.body)) return false;
    bool all_pay = true, some_contiguous = false;
    for_each_innermost(loop_.body, [&](const ir::For& around, const Stmt& s) {
      all_pay &= pays(s, loop_.iterator, some_contiguous);
      bool ignored = false;
      vectorises_ &= pays(s, around.iterator, ignored);
    });
    return all_pay && some_contiguous;
  }
  std::int64_t widest() const { return widest_; }
  /// Whether the innermost loops move through memory as lanes do, so that each could be vectorised.
  bool vectorises_by_itself() const { return vectorises_; }

 private:
  bool legal(const Stmt& s) const {
    return ir::visit(s, ir::overloaded{
                            [&](const ir::Block& n) {
                              return std::all_of(n.body.begin(), n.body.end(), [&](const Stmt& t) { return legal(t); });
                            },
                            [&](const ir::For& n) { return legal_loop(n); },
                            [&](const ir::If& n) {
                              if (!contains_loop(s)) return true;
                              if (depends_.any(n.condition) && bounds_load(s)) return false;
                              return !depends_.on_data(n.condition) && legal(n.then_body) &&
                                     (!n.else_body || legal(n.else_body));
                            },
                            [&](const ir::Allocate& n) { return constant_bytes(n.array) >= 0 && legal(n.body); },
                            [&](const ir::Assign&) { return true; },
                            [&](const ir::Reduce& n) { return !n.atomic; },
                            [&](const auto&) { return false; },
                        });
  }

  /// Bounds below a branch are evaluated for all lanes, also for those that would not get there: they must not fail.
  static bool bounds_load(const Stmt& s) {
    bool found = false;
    ir::walk_stmts(s, [&](const Stmt& t) {
      const auto* loop = t.as<ir::For>();
      found |= loop && (ir::has_load(loop->lower) || ir::has_load(loop->upper));
    });
    return found;
  }

  bool legal_loop(const ir::For& n) const {
    if (n.mode == LoopMode::Parallel || depends_.on_data(n.lower) || depends_.on_data(n.upper)) return false;
    const bool ragged = depends_.on_iterator(n.lower) || depends_.on_iterator(n.upper);
    if (!ragged) return legal(n.body);
    return !contains_loop(n.body) && bounds_over_lanes(n.lower) && bounds_over_lanes(n.upper) && legal(n.body);
  }
  bool bounds_over_lanes(const Expr& e) const {
    const Expr somewhere = ir::var(loop_.iterator);
    return over_lanes(e, loop_.iterator, somewhere, ir::int_const(2)).has_value();
  }

  static std::int64_t constant_bytes(const Array& array) {
    std::int64_t bytes = static_cast<std::int64_t>(bytes_of(array->type)) * 64;
    for (const Expr& extent : array->shape) {
      const auto c = ir::as_int(extent);
      if (!c || *c < 0 || *c > largest_private_bytes) return -1;
      bytes *= *c;
      if (bytes > largest_private_bytes) return -1;
    }
    return bytes;
  }

  template <class F>
  void for_each_innermost(const Stmt& s, const F& f) const {
    ir::walk_stmts(s, [&](const Stmt& t) {
      if (!is_sequential_for(t) || contains_loop(t.as<ir::For>()->body)) return;
      ir::walk_stmts(t.as<ir::For>()->body, [&](const Stmt& leaf) {
        if (leaf.kind() == ir::Kind::Assign || leaf.kind() == ir::Kind::Reduce) f(*t.as<ir::For>(), leaf);
      });
    });
  }

  /// Every access stays in place or moves to the neighbour from one value of the iterator to the next.
  bool pays(const Stmt& s, const ir::Symbol& iterator, bool& some_contiguous) {
    bool ok = true;
    auto access = [&](const Array& array, const std::vector<Expr>& indices) {
      bool in_lanes = indices.empty();  // each lane has its own
      for (std::size_t d = 0; d < indices.size(); ++d) {
        const auto stride = coefficient_of(indices[d], iterator);
        in_lanes |= stride != 0;
        const bool last = d + 1 == indices.size();
        if (!stride || (*stride != 0 && !(last && std::abs(*stride) == 1)) || depends_.on_data(indices[d])) ok = false;
        else some_contiguous |= *stride == 1;
      }
      in_lanes &= iterator == loop_.iterator;
      if (in_lanes) widest_ = std::max<std::int64_t>(widest_, bytes_of(value_type(array->type)));
    };
    if (const auto* a = s.as<ir::Assign>()) access(a->array, a->indices);
    if (const auto* r = s.as<ir::Reduce>()) access(r->array, r->indices);
    ir::walk(
        s, [](const Stmt&) {},
        [&](const Expr& e) {
          if (const auto* l = e.as<ir::Load>()) access(l->array, l->indices);
        });
    return ok;
  }

  const ir::For& loop_;
  LaneDependence depends_;
  std::int64_t widest_ = 1;
  bool vectorises_ = true;
};

/// Rewrites the body of one tile.
class Lanes {
 public:
  /// `count` lanes of which there are at most `most`.
  Lanes(const ir::For& loop, Expr first, Expr count, std::int64_t most)
      : iterator_(loop.iterator), first_(std::move(first)), count_(std::move(count)), most_(most) {}

  Stmt distribute(const Stmt& s) {
    if (const auto* b = s.as<ir::Block>()) return distribute_block(*b);
    if (const auto* a = s.as<ir::Allocate>()) {
      std::vector<Expr> shape = a->array->shape;
      shape.push_back(ir::int_const(most_));
      expanded_[a->array] = ir::make_array(a->array->name, a->array->type, shape, a->array->role, a->array->location);
      return ir::allocate(expanded_[a->array], distribute(a->body), a->location);
    }
    if (!contains_loop(s)) return in_lanes(s, condition_);
    if (const auto* n = s.as<ir::If>()) return distribute_branch(*n);
    const auto& loop = *s.as<ir::For>();
    if (mentions(loop.lower, iterator_) || mentions(loop.upper, iterator_)) return distribute_ragged(loop);
    return ir::for_loop(loop.iterator, loop.lower, loop.upper, distribute(loop.body), loop.mode, loop.location,
                        loop.at_most);
  }

 private:
  /// Neighbouring statements without loops share one loop over lanes.
  Stmt distribute_block(const ir::Block& b) {
    std::vector<Stmt> all, group;
    auto flush = [&] {
      if (!group.empty()) all.push_back(in_lanes(ir::block(group), condition_));
      group.clear();
    };
    for (const Stmt& child : b.body) {
      if (contains_loop(child) || child.kind() == ir::Kind::Allocate) {
        flush();
        all.push_back(distribute(child));
      } else {
        group.push_back(child);
      }
    }
    flush();
    return ir::block(std::move(all));
  }

  /// A branch around loops that differs from lane to lane becomes a condition on each lane's statements.
  Stmt distribute_branch(const ir::If& n) {
    auto side = [&](const Stmt& body, const Expr& condition) {
      if (!body) return Stmt{};
      const Expr outer = condition_;
      if (mentions(n.condition, iterator_))
        condition_ = outer ? ir::binary(ir::BinaryOp::And, outer, condition) : condition;
      Stmt result = distribute(body);
      condition_ = outer;
      return result;
    };
    const Stmt then_body = side(n.then_body, n.condition);
    const Stmt else_body = side(n.else_body, ir::unary(ir::UnaryOp::Not, n.condition));
    if (mentions(n.condition, iterator_)) return ir::block({then_body, else_body});
    return ir::if_then(n.condition, then_body, else_body, n.location);
  }

  /// The bounds differ from lane to lane. Where they move along with the lanes, the loop may be run by the distance
  /// from the lane, whichever needs fewer iterations for all lanes.
  Stmt distribute_ragged(const ir::For& loop) {
    // "The loop is not empty" holds wherever a lane is within its bounds.
    const bool implied = condition_ && ir::equal(condition_, ir::binary(ir::BinaryOp::Lt, loop.lower, loop.upper));
    const Expr outer = implied ? Expr{} : condition_;
    const RaggedParts straight = ragged_parts(loop, outer);
    const auto shifted = shifted_along(loop, iterator_);
    if (!shifted) return straight.code;
    const ir::For& distance = *shifted->as<ir::For>();
    for (const Expr& bound : {distance.lower, distance.upper})
      if (!over_lanes(bound, iterator_, first_, count_)) return straight.code;
    const RaggedParts slanted = ragged_parts(distance, outer);
    return ir::if_then(ir::binary(ir::BinaryOp::Lt, slanted.trips, straight.trips), slanted.code, straight.code,
                       loop.location);
  }

  struct RaggedParts {
    Stmt code;
    Expr trips;
  };

  /// [lower, upper) differs from lane to lane: [a, b) and [c, d) are run under each lane's own bounds, [b, c) by all.
  RaggedParts ragged_parts(const ir::For& loop, const Expr& outer) {
    const ir::Range lower = *over_lanes(loop.lower, iterator_, first_, count_);
    const ir::Range upper = *over_lanes(loop.upper, iterator_, first_, count_);
    const Expr a = lower.lowest, d = ir::larger(a, upper.highest);
    const Expr b = ir::smaller(ir::larger(lower.highest, a), d);
    const Expr c = ir::smaller(ir::larger(upper.lowest, b), d);
    const Expr j = ir::var(loop.iterator);
    const Expr mine = ir::binary(ir::BinaryOp::And, ir::binary(ir::BinaryOp::Le, loop.lower, j),
                                 ir::binary(ir::BinaryOp::Lt, j, loop.upper));
    auto part = [&](const Expr& from, const Expr& to, const Expr& within) {
      const Expr condition = outer && within ? ir::binary(ir::BinaryOp::And, within, outer) : within ? within : outer;
      const Stmt body = in_lanes(loop.body, condition);
      return ir::with_fresh_names(ir::for_loop(loop.iterator, from, to, body, loop.mode, loop.location));
    };
    std::vector<Stmt> parts{part(a, b, mine), part(b, c, {}), part(c, d, mine)};
    if (loop.mode == LoopMode::Backward) std::reverse(parts.begin(), parts.end());
    return {ir::block(std::move(parts)), d - a};
  }

  /// One loop over lanes around loop-free code.
  Stmt in_lanes(const Stmt& s, const Expr& condition) {
    const ir::Symbol lane = ir::make_symbol("lane");
    const Expr l = ir::var(lane);
    ir::Substitution here{{iterator_, first_ + l}};
    Stmt body = expand_privates(condition ? ir::if_then(condition, s) : s, l);
    body = ir::substitute(body, here);
    const Stmt all = ir::for_loop(lane, ir::int_const(0), count_, body, LoopMode::Parallel, s->location);
    return ir::with_fresh_names(with_tight_bounds(all));
  }

  Stmt expand_privates(const Stmt& s, const Expr& lane) const {
    ir::ExprRewrite on_expr;
    ir::StmtRewrite on_stmt;
    auto index = [&](const std::vector<Expr>& inner) {
      std::vector<Expr> all;
      for (const Expr& e : inner) all.push_back(ir::rewrite(e, on_expr));
      all.push_back(lane);
      return all;
    };
    on_expr = [&](const Expr& e) -> std::optional<Expr> {
      const auto* load = e.as<ir::Load>();
      const auto it = load ? expanded_.find(load->array) : expanded_.end();
      if (it == expanded_.end()) return std::nullopt;
      return ir::load(it->second, index(load->indices), load->location);
    };
    on_stmt = [&](const Stmt& t) -> std::optional<Stmt> {
      if (const auto* n = t.as<ir::Assign>(); n && expanded_.count(n->array))
        return ir::assign(expanded_.at(n->array), index(n->indices), ir::rewrite(n->value, on_expr), n->location);
      if (const auto* n = t.as<ir::Reduce>(); n && expanded_.count(n->array))
        return ir::reduce_like(*n, expanded_.at(n->array), index(n->indices), ir::rewrite(n->value, on_expr));
      return std::nullopt;
    };
    return ir::rewrite(s, on_expr, on_stmt);
  }

  const ir::Symbol& iterator_;
  Expr first_;
  Expr count_;
  std::int64_t most_;
  std::map<Array, Array> expanded_;
  Expr condition_;  // under which the current lane runs the statement at hand; null: always
};

/// The iterations first, ..., first + count - 1 in lanes, of which there are at most `most`.
Stmt lanes_of(const ir::For& loop, const Expr& first, const Expr& count, std::int64_t most) {
  return ir::with_fresh_names(Lanes(loop, first, count, most).distribute(loop.body));
}

std::size_t number_of_loops(const Stmt& s) {
  std::size_t count = 0;
  ir::walk_stmts(s, [&](const Stmt& t) { count += t.kind() == ir::Kind::For || t.kind() == ir::Kind::While; });
  return count;
}

/// The first of the trips that tiles of this many leave over, counted from 0.
Expr start_of_rest(const Expr& trips, std::int64_t lanes) {
  const Expr count = ir::int_const(lanes);
  return ir::binary(ir::BinaryOp::FloorDiv, trips, count) * count;
}

/// What full tiles leave over: iteration by iteration or, where threads do not share it out, in fewer lanes. Of a sum
/// that is all there is, half and quarter tiles do most of that, whose number of lanes is known and so stays in
/// registers.
Stmt rest_of(const ir::For& loop, const Expr& trips, std::int64_t lanes, bool alone, bool vectorises) {
  std::vector<Stmt> parts;
  std::int64_t done = lanes;
  for (; alone && done > least_lanes && number_of_loops(loop.body) == 1; done /= 2) {
    const Expr start = start_of_rest(trips, done), half = ir::int_const(done / 2);
    parts.push_back(ir::if_then(ir::binary(ir::BinaryOp::Ge, simplify_indices(trips - start), half),
                                lanes_of(loop, loop.lower + start, half, done / 2), {}, loop.location));
  }
  const Expr first = loop.lower + start_of_rest(trips, done), count = simplify_indices(loop.upper - first);
  const Stmt one_by_one = ir::for_loop(loop.iterator, first, loop.upper, loop.body, LoopMode::Parallel, loop.location);
  if (!alone || (vectorises && done <= least_lanes)) {
    parts.push_back(one_by_one);
  } else {
    const Expr enough = ir::binary(ir::BinaryOp::Ge, count, ir::int_const(vectorises ? least_lanes : std::int64_t{1}));
    parts.push_back(
        ir::if_then(enough, lanes_of(loop, first, count, done), vectorises ? one_by_one : Stmt{}, loop.location));
  }
  return ir::with_fresh_names(ir::block(std::move(parts)));
}

class Tiler {
 public:
  explicit Tiler(const ir::Program& program) {
    sizes_.non_negative = [&program](const ir::Symbol& symbol) {
      return std::find(program.sizes.begin(), program.sizes.end(), symbol) != program.sizes.end();
    };
  }

  /// `alone`: one thread runs the loops in `s`.
  Stmt rewrite(const Stmt& s, bool alone) {
    return ir::rewrite(s, {}, [&](const Stmt& t) -> std::optional<Stmt> {
      const auto* loop = t.as<ir::For>();
      if (!loop || loop->mode != LoopMode::Parallel) return std::nullopt;
      Eligibility eligibility(*loop);
      if (eligibility.check()) return tile(*loop, eligibility, alone);
      const Stmt body = rewrite(loop->body, true);
      return body.same_as(loop->body) ? t : with_body(*loop, body);
    });
  }

 private:
  Stmt tile(const ir::For& loop, const Eligibility& eligibility, bool alone) const {
    const std::int64_t lanes = bytes_of_lanes / eligibility.widest();
    Expr trips = loop.upper - loop.lower;
    if (!ir::surely_non_negative(trips, sizes_)) trips = ir::larger(trips, ir::int_const(0));
    const Expr count = ir::int_const(lanes), tiles = ir::binary(ir::BinaryOp::FloorDiv, trips, count);
    const ir::Symbol t = ir::make_symbol(loop.iterator.name + "_tile");
    const Stmt body = lanes_of(loop, loop.lower + ir::var(t) * count, count, lanes);
    const Stmt full = ir::for_loop(t, ir::int_const(0), tiles, body, LoopMode::Parallel, loop.location);
    return ir::block({full, rest_of(loop, trips, lanes, alone, eligibility.vectorises_by_itself())});
  }

  ir::RangeContext sizes_;
};

}  // namespace

ir::Program tile_lanes(const ir::Program& program) {
  return program.body ? ir::with_body(program, Tiler(program).rewrite(program.body, false)) : program;
}

}  // namespace loopgrad::transforms
