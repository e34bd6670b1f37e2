#include "transforms/map/cpu/tile_lanes.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/structural_equal.h"
#include "dsl/symbolic/linear_form.h"
#include "dsl/symbolic/ranges.h"
#include "transforms/analysis/nest.h"
#include "transforms/loops/lane_loops.h"
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

constexpr std::int64_t bytes_of_lanes = 256;  // four vector registers of 64 bytes
static_assert((bytes_of_lanes & (bytes_of_lanes - 1)) == 0, "halves and quarters of a tile leave nothing over");

/// Rewrites the body of one tile.
class Lanes {
 public:
  /// `count` lanes of which there are at most `most`.
  Lanes(const ir::For& loop, Expr first, Expr count, std::int64_t most)
      : iterator_(loop.iterator), depends_(loop), first_(std::move(first)), count_(std::move(count)), most_(most) {}

  Stmt distribute(const Stmt& s) {
    if (is_of_one_lane(s) && !has_common_branch(s)) return in_lanes(s, condition_);
    if (const auto* b = s.as<ir::Block>()) return distribute_block(*b);
    if (const auto* a = s.as<ir::Allocate>()) {
      if (depends_.is_uniform(a->array)) return ir::allocate(a->array, distribute(a->body), a->location);
      std::vector<Expr> shape = a->array->shape;
      shape.push_back(ir::int_const(most_));
      expanded_[a->array] = ir::make_array(a->array->name, a->array->type, shape, a->array->role, a->array->location);
      return ir::allocate(expanded_[a->array], distribute(a->body), a->location);
    }
    if (const auto* n = s.as<ir::If>()) return distribute_branch(*n);
    const auto& loop = *s.as<ir::For>();
    if (mentions(loop.lower, iterator_) || mentions(loop.upper, iterator_)) return distribute_ragged(loop);
    ++loops_inside_;
    const Stmt body = distribute(loop.body);
    --loops_inside_;
    return ir::for_loop(loop.iterator, loop.lower, loop.upper, body, loop.mode, loop.location, loop.at_most);
  }

 private:
  /// Whether a branch, or one of a list of statements, is taken by all lanes or by none. In a loop inside it is asked
  /// once, around the lanes: compilers do not vectorise lanes that read in a branch. (One that is asked once in a tile
  /// takes less time than another loop over lanes.)
  bool has_common_branch(const Stmt& s) const {
    if (loops_inside_ == 0) return false;
    if (const auto* b = s.as<ir::Block>())
      return std::any_of(b->body.begin(), b->body.end(), [&](const Stmt& child) { return has_common_branch(child); });
    const auto* branch = s.as<ir::If>();
    if (!branch || depends_.any(branch->condition)) return false;
    // No lane need get there.
    return !condition_ || (!ir::has_load(branch->condition) && divisors_in(branch->condition).empty());
  }

  /// Neighbouring statements without loops share one loop over lanes.
  Stmt distribute_block(const ir::Block& b) {
    std::vector<Stmt> all, group;
    auto flush = [&] {
      if (!group.empty()) all.push_back(in_lanes(ir::block(group), condition_));
      group.clear();
    };
    for (const Stmt& child : b.body) {
      if (!is_of_one_lane(child) || has_common_branch(child)) {
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
    const auto shifted = lanes_meet_at_neighbours(loop) ? std::nullopt : shifted_along(loop, iterator_);
    if (!shifted) return straight.code;
    const ir::For& distance = *shifted->as<ir::For>();
    for (const Expr& bound : {distance.lower, distance.upper})
      if (!over_lanes(bound, iterator_, first_, count_)) return straight.code;
    const RaggedParts slanted = ragged_parts(distance, outer);
    return ir::if_then(ir::binary(ir::BinaryOp::Lt, slanted.trips, straight.trips), slanted.code, straight.code,
                       loop.location);
  }

  /// Whether lanes add to more than one element of an array that they have in common, at which they are: shifted, they
  /// would meet.
  bool lanes_meet_at_neighbours(const ir::For& loop) const {
    std::vector<const ir::Reduce*> shared;
    for (const Stmt& leaf : leaves(loop.body))
      if (const auto* sum = leaf.as<ir::Reduce>(); sum && depends_.is_shared(*sum)) shared.push_back(sum);
    for (const ir::Reduce* a : shared)
      for (const ir::Reduce* b : shared)
        if (a->array == b->array && !ir::equal(a->indices, b->indices)) return true;
    return false;
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
    const Uniform uniform = without_uniform(s);
    SharedLanes shared = with_shared_sums(condition ? ir::if_then(condition, uniform.rest) : uniform.rest);
    Stmt body = expand_privates(shared.body, l);
    body = ir::substitute(body, here);
    const LoopMode mode = shared.sums.empty() ? LoopMode::Parallel : LoopMode::Forward;
    const Stmt all = ir::for_loop(lane, ir::int_const(0), count_, body, mode, s->location);
    std::vector<Stmt> parts = uniform.assigned;
    const bool is_empty = leaves(body).empty();
    parts.push_back(added_up(shared, is_empty ? body : with_tight_bounds(all)));
    Stmt result = ir::block(std::move(parts));
    for (const ir::Array& array : uniform.arrays) result = ir::allocate(array, result, s->location);
    return ir::with_fresh_names(result);
  }

  /// What is the same for all lanes, and the rest.
  struct Uniform {
    std::vector<Stmt> assigned = {};
    std::vector<ir::Array> arrays = {};
    Stmt rest = {};
  };
  Uniform without_uniform(const Stmt& s) const {
    Uniform result;
    ir::StmtRewrite on_stmt = [&](const Stmt& t) -> std::optional<Stmt> {
      if (const auto* local = t.as<ir::Allocate>(); local && depends_.is_uniform(local->array)) {
        result.arrays.push_back(local->array);
        return ir::rewrite(local->body, {}, on_stmt);
      }
      const auto* assigned = t.as<ir::Assign>();
      if (!assigned || !depends_.is_uniform(assigned->array)) return std::nullopt;
      result.assigned.push_back(t);
      return ir::block({});
    };
    result.rest = ir::rewrite(s, {}, on_stmt);
    return result;
  }

  /// A sum of all lanes.
  struct SharedSum {
    const ir::Reduce* sum;
    ir::Array of_lanes;  // a scalar
    bool sometimes;      // only where a condition holds, without which the element may not exist
  };
  struct SharedLanes {
    Stmt body;
    std::vector<SharedSum> sums = {};
    std::vector<Stmt> once = {};  // extrema of what all lanes have
  };

  /// Lanes add to scalars what they would add to elements of all of them.
  SharedLanes with_shared_sums(const Stmt& s) const {
    SharedLanes result;
    std::vector<Expr> conditions;
    ir::StmtRewrite on_stmt = [&](const Stmt& t) -> std::optional<Stmt> {
      if (const auto* branch = t.as<ir::If>()) {
        const auto under = [&](const Expr& condition, const Stmt& body) {
          conditions.push_back(condition);
          const Stmt inside = body ? ir::rewrite(body, {}, on_stmt) : Stmt{};
          conditions.pop_back();
          return inside && leaves(inside).empty() ? Stmt{} : inside;
        };
        const Stmt then_body = under(branch->condition, branch->then_body);
        const Stmt else_body = under(ir::unary(ir::UnaryOp::Not, branch->condition), branch->else_body);
        if (!then_body && !else_body) return ir::block({});
        return ir::if_then(branch->condition, then_body ? then_body : ir::block({}), else_body, branch->location);
      }
      const auto* sum = t.as<ir::Reduce>();
      if (!sum || !depends_.is_shared(*sum)) return std::nullopt;
      const auto differs = [&](const Expr& e) { return depends_.any(e); };
      if (depends_.is_had_once(*sum) && std::none_of(conditions.begin(), conditions.end(), differs)) {
        Stmt once = t;
        for (auto c = conditions.rbegin(); c != conditions.rend(); ++c) once = ir::if_then(*c, once, {}, t->location);
        result.once.push_back(once);
        return ir::block({});
      }
      const ir::Array lanes =
          ir::make_array(sum->array->name + "_lanes", sum->array->type, {}, ir::ArrayRole::Local, sum->array->location);
      result.sums.push_back({sum, lanes, !conditions.empty()});
      return ir::reduce_like(*sum, lanes, {}, sum->value);
    };
    result.body = ir::rewrite(s, {}, on_stmt);
    return result;
  }

  /// A loop over lanes with what they share.
  static Stmt added_up(const SharedLanes& shared, const Stmt& loop) {
    std::vector<Stmt> before, after = shared.once;
    for (const SharedSum& one : shared.sums) {
      const Expr nothing = ir::identity_of(one.sum->op, one.of_lanes->type), all = ir::load(one.of_lanes, {});
      before.push_back(ir::assign(one.of_lanes, {}, nothing));
      const Stmt add = ir::reduce_like(*one.sum, one.sum->array, one.sum->indices, all);
      after.push_back(one.sometimes ? ir::if_then(ir::binary(ir::BinaryOp::Ne, all, nothing), add) : add);
    }
    Stmt result = ir::block({ir::block(std::move(before)), loop, ir::block(std::move(after))});
    for (const SharedSum& one : shared.sums) result = ir::allocate(one.of_lanes, result, loop->location);
    return result;
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
  const LaneDependence depends_;
  Expr first_;
  Expr count_;
  std::int64_t most_;
  std::map<Array, Array> expanded_;
  Expr condition_;        // under which the current lane runs the statement at hand; null: always
  int loops_inside_ = 0;  // around the statement at hand
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
Stmt rest_of(const ir::For& loop, const Expr& trips, std::int64_t lanes, bool alone, const LaneLoop& plan) {
  std::vector<Stmt> parts;
  std::int64_t done = lanes;
  for (; alone && !plan.shares_sums && done > least_lanes && number_of_loops(loop.body) == 1; done /= 2) {
    const Expr start = start_of_rest(trips, done), half = ir::int_const(done / 2);
    parts.push_back(ir::if_then(ir::binary(ir::BinaryOp::Ge, simplify_indices(trips - start), half),
                                lanes_of(loop, loop.lower + start, half, done / 2), {}, loop.location));
  }
  const Expr first = loop.lower + start_of_rest(trips, done), count = simplify_indices(loop.upper - first);
  const LoopMode mode = plan.shares_sums ? LoopMode::Forward : LoopMode::Parallel;
  const Stmt one_by_one = ir::for_loop(loop.iterator, first, loop.upper, loop.body, mode, loop.location);
  if ((!alone && !plan.parallel_inside) || (plan.by_itself && done <= least_lanes)) {
    parts.push_back(one_by_one);
  } else {
    const bool has_another_way = plan.by_itself || plan.shares_sums || plan.parallel_inside;
    const std::int64_t least = has_another_way ? least_lanes : 1;
    const Expr enough = ir::binary(ir::BinaryOp::Ge, count, ir::int_const(least));
    parts.push_back(
        ir::if_then(enough, lanes_of(loop, first, count, done), least > 1 ? one_by_one : Stmt{}, loop.location));
  }
  return ir::with_fresh_names(ir::block(std::move(parts)));
}

class Tiler {
 public:
  Tiler(const ir::Program& program, Analyses& analyses) : program_(program), analyses_(analyses) {
    sizes_.non_negative = [&program](const ir::Symbol& symbol) {
      return std::find(program.sizes.begin(), program.sizes.end(), symbol) != program.sizes.end();
    };
  }

  /// `alone`: one thread runs the loops in `s`.
  Stmt rewrite(const Stmt& s, bool alone) {
    return ir::rewrite(s, {}, [&](const Stmt& t) -> std::optional<Stmt> {
      const auto* loop = t.as<ir::For>();
      if (!loop) return std::nullopt;
      if (const auto plan = lane_loop(program_, t, analyses_)) return tile(*loop, *plan, alone);
      if (!ir::is_parallel(loop->mode)) return std::nullopt;
      const Stmt body = rewrite(loop->body, true);
      return body.same_as(loop->body) ? t : with_body(*loop, body);
    });
  }

 private:
  Stmt tile(const ir::For& loop, const LaneLoop& plan, bool alone) const {
    const std::int64_t lanes = bytes_of_lanes / plan.widest;
    Expr trips = loop.upper - loop.lower;
    if (!ir::surely_non_negative(trips, sizes_)) trips = ir::larger(trips, ir::int_const(0));
    const Expr count = ir::int_const(lanes), tiles = ir::binary(ir::BinaryOp::FloorDiv, trips, count);
    const ir::Symbol t = ir::make_symbol(loop.iterator.name + "_tile");
    const Stmt body = lanes_of(loop, loop.lower + ir::var(t) * count, count, lanes);
    const LoopMode mode = plan.shares_sums ? LoopMode::Forward : LoopMode::Parallel;
    const Stmt full = ir::for_loop(t, ir::int_const(0), tiles, body, mode, loop.location);
    return ir::block({full, rest_of(loop, trips, lanes, alone || plan.shares_sums, plan)});
  }

  const ir::Program& program_;
  Analyses& analyses_;
  ir::RangeContext sizes_;
};

}  // namespace

ir::Program tile_lanes(const ir::Program& program, PassContext& context) {
  return program.body ? ir::with_body(program, Tiler(program, analyses(context)).rewrite(program.body, false))
                      : program;
}

}  // namespace loopgrad::transforms
