#include "transforms/map/gpu/spread_loops.h"

#include "dsl/ir/queries.h"
#include "dsl/ir/rewriter.h"
#include "dsl/ir/visit.h"
#include "transforms/analysis/contiguous.h"
#include "transforms/analysis/nest.h"
#include "transforms/analysis/strides.h"
#include "transforms/loops/loop_builder.h"
#include "transforms/map/gpu/inner_work.h"
#include "transforms/map/gpu/keep_rows.h"
#include "transforms/map/gpu/lane_groups.h"
#include "transforms/map/gpu/shared_nest.h"
#include "transforms/storage/settle_scalars.h"
#include "transforms/storage/update_once.h"

#include <algorithm>
#include <functional>

namespace loopgrad::transforms {

using ir::BinaryOp;
using ir::Expr;
using ir::LoopMode;
using ir::Stmt;

namespace {

constexpr std::int64_t warp_threads = 32;
constexpr std::int64_t most_team = 1024;  // threads of a block

/// A parallel loop with an iteration for each of a constant number of threads.
bool is_team_loop(const ir::For& loop, const Expr& threads) {
  return loop.mode == LoopMode::Parallel && ir::as_int(loop.lower) == 0 && ir::as_int(threads) &&
         ir::as_int(loop.upper) == ir::as_int(threads);
}

class Spreader {
 public:
  Spreader(const Analysed& program, Expr threads, const RowLoops* rows, bool ragged = false)
      : program_(program), threads_(std::move(threads)), ragged_(ragged), rows_(rows) {}

  /// No other block changes the scalars around the kernel, which is `s`.
  void own_all_scalars(const Stmt& s) {
    ir::walk_stmts(s, [&](const Stmt& child) {
      const auto* sum = child.as<ir::Reduce>();
      if (sum && sum->indices.empty()) own_.push_back({sum->array, {}});
    });
  }

  Stmt visit(const Stmt& s) {
    if (ir::is_empty(s)) return s;
    if (const auto* n = s.as<ir::Block>()) {
      std::vector<Stmt> body;
      const std::size_t before = own_.size();
      for (const Stmt& child : n->body) {
        body.push_back(visit(child));
        const auto* a = child.as<ir::Assign>();
        if (a && std::none_of(a->indices.begin(), a->indices.end(), has_load))
          own_.push_back({a->array, a->indices, true});
      }
      own_.resize(before);
      return ir::block(std::move(body));
    }
    if (const auto* n = s.as<ir::Allocate>()) {
      if (n->array->shape.empty()) {
        scalars_.insert(n->array);
        own_.push_back({n->array, {}});
      }
      if (rows_ && is_kept(program_, *n, *rows_)) return visit_kept(*n);
      return ir::allocate(n->array, visit(n->body), n->location);
    }
    if (const auto* n = s.as<ir::If>())
      return ir::if_then(n->condition, visit(n->then_body), visit(n->else_body), n->location);
    if (const auto* n = s.as<ir::While>()) {
      if (!can_spread(program_, n->body)) return single(s);
      return ir::while_loop(n->iterator, n->max_trips, n->condition, visit(n->body), n->location);
    }
    if (const auto* n = s.as<ir::For>()) return visit_loop(s, *n);
    bool scalar = false;
    for_each_store(s, [&](const ir::Array& a, const std::vector<Expr>&) { scalar = scalars_.count(a) > 0; });
    if (!scalar) return single(s);
    const auto* sum = s.as<ir::Reduce>();
    // Each thread has all of the sum in its copy.
    return sum && sum->atomic ? ir::reduce(sum->array, sum->indices, sum->op, sum->value, sum->location) : s;
  }

 private:
  /// Of one thread, the iterator is its only value: `single` gives its loops a name that nothing uses.
  Stmt by_team(const ir::For& loop) const {
    if (ir::as_int(threads_) == 1) return single(ir::substitute(loop.body, {{loop.iterator, loop.lower}}));
    return threads_loop(loop.iterator, threads_, loop.body, loop.location);
  }

  Stmt visit_loop(const Stmt& s, const ir::For& loop) {
    if (const auto sums = sums_into_scalars(s); !sums.empty()) return with_sums_of_threads(s, loop, sums);
    if (is_team_loop(loop, threads_)) return by_team(loop);
    const std::vector<const ir::For*> nest = short_nest(s);
    if (nest.size() > 1 && !ragged_ && !rows_) return spread_as_one(nest);
    if (ragged_ && !has_few_trips(loop) && fits_lane_groups(program_, loop))
      return lane_groups(program_, loop, *ir::as_int(threads_));
    if (!has_few_trips(loop)) {
      const auto sums = shared_sums(program_, s, own_);
      const SharedNest nested = sums ? nest_to_share(program_, s, *sums) : SharedNest();
      Stmt shared = nested.shared;
      if (ragged_ && sums && has_length_from_data(loop)) shared = s;
      // Only loops over rows know which thread has an element of a kept one.
      const bool kept = shared && touches_kept(s);
      const bool row = shared && (kept || shared.same_as(s)) && rows_ && rows_->contains(program_, shared);
      const ir::For* const around = ragged_ || rows_ ? nullptr : nested.around;
      if (shared && (row || !kept)) return spread(loop, *shared.as<ir::For>(), *sums, row, around);
      const Stmt inner = sums && sums->empty() && !ragged_ && !rows_ ? parallel_loop_inside(loop) : Stmt();
      if (inner) return spread_both(loop, inner);
      if (sums && sums->empty()) return spread_here_or_inside(s, loop);
    }
    return spread_inside(s, loop);
  }

  /// What iterations of a parallel loop add to scalars of the block, all at the same time.
  std::vector<SharedSum> sums_into_scalars(const Stmt& s) const {
    std::vector<SharedSum> sums;
    if (!is_parallel_loop(s)) return sums;
    ir::walk_stmts(s, [&](const Stmt& child) {
      const auto* sum = child.as<ir::Reduce>();
      const auto known = [&](const SharedSum& other) { return other.array == sum->array; };
      if (sum && sum->atomic && scalars_.count(sum->array) && std::none_of(sums.begin(), sums.end(), known))
        sums.push_back({sum->array, {}, sum->op, sum->location});
    });
    return sums;
  }

  /// Threads add up what their iterations add, and then meet: not each of them has as many iterations as the others.
  Stmt with_sums_of_threads(const Stmt& s, const ir::For& loop, const std::vector<SharedSum>& sums) {
    const bool row = rows_ && rows_->contains(program_, s);
    const bool summable = std::all_of(sums.begin(), sums.end(), [](const SharedSum& sum) {
      return sum.array->type == value_type(sum.array->type) && sum.array->type != ScalarType::Bool;
    });
    if (summable && (row || !touches_kept(s))) return spread(loop, loop, sums, row, nullptr);
    return spread_inside(s, loop);
  }

  Stmt spread_as_one(const std::vector<const ir::For*>& nest) const {
    const ir::Symbol t = ir::make_symbol("t"), place = ir::make_symbol("place");
    Stmt body = update_once(program_, nest.back()->body);
    Expr inside = number(1);  // iterations of the loops inside
    for (auto loop = nest.rbegin(); loop != nest.rend(); ++loop) {
      const ir::For& n = **loop;
      const Expr trips = n.upper - n.lower, turn = div(ir::var(place), inside);
      body = let(n.iterator, n.lower + (&n == nest.front() ? turn : mod(turn, trips)), body);
      inside = inside * trips;
    }
    const SourceLocation& where = nest.front()->location;
    return threads_loop(t, threads_, every_nth(place, ir::var(t), inside, threads_, body, where), where);
  }

  /// Neighbouring threads share the inner loop, groups of them the outer one.
  Stmt spread_both(const ir::For& loop, const Stmt& inner) const {
    const ir::For& n = *inner.as<ir::For>();
    const ir::Symbol t = ir::make_symbol("t");
    const Stmt own = update_once(program_, with_own_sums(n.body));
    const Stmt body = in_groups(loop, n, [&](const Groups& by) {
      const Stmt shared =
          strided_loop(n.iterator, n.lower, n.upper, mod(ir::var(t), by.lanes), by.lanes, own, n.location);
      return share_of_group(loop, t, replace(loop.body, inner, shared), by);
    });
    return threads_loop(t, threads_, body, loop.location);
  }

  /// A parallel loop whose loops inside touch memory in a better order. Where these are short, threads would meet for
  /// each of its iterations with little to do in between: each takes iterations of its own then.
  Stmt spread_here_or_inside(const Stmt& s, const ir::For& loop) {
    const Stmt inside = spread_inside(s, loop);
    // Kept rows have no other places than their threads.
    const std::optional<InnerWork> work = rows_ ? std::nullopt : inner_work(program_, loop);
    if (!work) return inside;
    const Stmt own = with_body(loop, with_own_sums(loop.body));
    const Stmt here = spread(*own.as<ir::For>(), *own.as<ir::For>(), {}, false, nullptr);
    return ir::if_then(own_iterations_pay(loop, *work, threads_), ir::with_fresh_names(here), inside, loop.location);
  }

  Stmt spread_inside(const Stmt& s, const ir::For& loop) {
    if (!can_spread(program_, loop.body)) return single(s);
    const LoopMode mode = loop.mode == LoopMode::Parallel ? LoopMode::Forward : loop.mode;
    return ir::for_loop(loop.iterator, loop.lower, loop.upper, visit(loop.body), mode, loop.location, loop.at_most);
  }

  bool touches_kept(const Stmt& s) const {
    bool touches = false;
    ir::walk(
        s,
        [&](const Stmt& child) {
          for_each_store(child, [&](const ir::Array& array, const auto&) { touches |= kept_.contains(array); });
        },
        [&](const Expr& e) {
          const auto* load = e.as<ir::Load>();
          touches |= load && kept_.contains(load->array);
        });
    return touches;
  }

  Stmt visit_kept(const ir::Allocate& local) {
    const ir::Array& row = local.array;
    const ir::Array kept =
        ir::make_array(row->name, row->type, {threads_, ir::int_const(kept_per_thread)}, row->role, row->location);
    kept_[row] = kept;
    return ir::allocate(kept, visit(local.body), local.location);
  }

  /// Each warp has a piece of every row, and its threads have elements at a constant distance: that keeps addresses
  /// cheap, and neighbours together.
  Stmt row_loop(const ir::For& loop, const ir::Symbol& t, const Stmt& body) const {
    const ir::Symbol k = ir::make_symbol("k");
    const std::vector<Expr> place = {ir::var(t), ir::var(k)};
    Stmt own = ir::move_elements(body, [&](const ir::Array& array, const auto&) -> std::optional<ir::ElementPlace> {
      const auto kept = kept_.find(array);
      return kept == kept_.end() ? std::nullopt : std::optional(ir::ElementPlace{kept->second, place});
    });
    if (ir::as_int(loop.lower) != 0)
      own = ir::if_then(ir::binary(BinaryOp::Ge, ir::var(loop.iterator), loop.lower), own, {}, loop.location);
    const Expr warp = ir::int_const(warp_threads);
    const Expr first = ir::binary(BinaryOp::FloorDiv, ir::var(t), warp) * ir::int_const(warp_threads * kept_per_thread);
    const Expr lane = ir::binary(BinaryOp::Mod, ir::var(t), warp);
    const Chunk one = {first + lane + ir::var(k) * warp, {}, loop.upper};
    return ir::for_loop(k, ir::int_const(0), ir::int_const(kept_per_thread),
                        chunk_loop(loop.iterator, one, 1, own, loop.location), LoopMode::Forward, loop.location);
  }

  /// How threads take apart loops directly inside each other: neighbours the inner one, groups of so many `around`.
  struct Groups {
    const ir::For* around = nullptr;  // null: one thread does all of that
    Expr lanes, groups;               // threads along the inner loop, and how many of these there are
  };

  /// make(groups), with their numbers in scope.
  template <class Make>
  Stmt in_groups(const ir::For& around, const ir::For& shared, const Make& make) const {
    const ir::Symbol lanes = ir::make_symbol("lanes"), groups = ir::make_symbol("groups");
    const Stmt share = make(Groups{&around, ir::var(lanes), ir::var(groups)});
    // There is one: said so that bounds of what is divided by their number are known.
    const Expr count = ir::binary(BinaryOp::Max, div(threads_, ir::var(lanes)), number(1));
    return let(lanes, lanes_along(shared, threads_), let(groups, count, share));
  }

  /// The iterations of the loop around that the thread's group has.
  static Stmt share_of_group(const ir::For& loop, const ir::Symbol& t, const Stmt& body, const Groups& by) {
    const Expr group = div(ir::var(t), by.lanes);
    const Stmt share = every_nth(loop.iterator, loop.lower + group, loop.upper, by.groups, body, loop.location);
    return ir::if_then(ir::binary(BinaryOp::Lt, group, by.groups), share, {}, loop.location);
  }

  /// The loops from `loop` to `shared`, directly inside each other, by one thread: its share of the latter's
  /// iterations, those of its elements where that is a loop over a row.
  Stmt share_of_thread(const ir::For& loop, const ir::For& shared, const ir::Symbol& t, const Stmt& body, bool row,
                       const Groups& by) const {
    if (row && loop.iterator == shared.iterator) return row_loop(loop, t, body);
    if (loop.iterator == shared.iterator && ragged_ && has_length_from_data(loop))
      return every_nth(loop.iterator, loop.lower + ir::var(t), loop.upper, threads_, body, loop.location);
    if (loop.iterator == shared.iterator)
      return strided_loop(loop.iterator, loop.lower, loop.upper, by.around ? mod(ir::var(t), by.lanes) : ir::var(t),
                          by.around ? by.lanes : threads_, body, loop.location);
    const auto* inner = body.as<ir::For>();
    const Stmt inside = share_of_thread(*inner, shared, t, inner->body, row, by);
    if (by.around && loop.iterator == by.around->iterator) return share_of_group(loop, t, inside, by);
    const LoopMode mode = loop.mode == LoopMode::Backward ? loop.mode : LoopMode::Forward;
    return ir::for_loop(loop.iterator, loop.lower, loop.upper, inside, mode, loop.location, loop.at_most);
  }

  Stmt shares_of_thread(const ir::For& loop, const ir::For& shared, const ir::Symbol& t, const Stmt& body, bool row,
                        const ir::For* around) const {
    if (!around) return share_of_thread(loop, shared, t, body, row, {});
    return in_groups(*around, shared,
                     [&](const Groups& by) { return share_of_thread(loop, shared, t, body, row, by); });
  }

  Stmt spread(const ir::For& loop, const ir::For& shared, const std::vector<SharedSum>& sums, bool row,
              const ir::For* around) {
    const ir::Symbol t = ir::make_symbol("t");
    const bool whole = ragged_ && &loop == &shared && has_length_from_data(loop);
    const Stmt iteration = whole ? with_own_sums(loop.body) : loop.body;
    // What threads share or keep is none of one thread's registers.
    const Stmt once = sums.empty() && !rows_ ? update_once(program_, iteration) : iteration;
    const PartialSums partial = redirect_sums(sums, once, "_part");
    Stmt body = shares_of_thread(loop, shared, t, partial.body, row, around);
    if (sums.empty()) return threads_loop(t, threads_, body, loop.location);

    // part = identity; loop; all += part (together); target += all
    std::vector<Stmt> own, before, after;
    std::vector<ir::Array> totals;
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const SharedSum& sum = sums[k];
      const ir::Array total =
          ir::make_array(sum.array->name + "_all", sum.array->type, {}, ir::ArrayRole::Local, sum.location);
      totals.push_back(total);
      const Expr zero = ir::identity_of(sum.op, sum.array->type);
      own.push_back(ir::assign(partial.parts[k], {}, zero, sum.location));
      before.push_back(ir::assign(total, {}, zero, sum.location));
      const Stmt add = ir::reduce(sum.array, sum.indices, sum.op, ir::load(total, {}), sum.location);
      after.push_back(visit(add));
    }
    own.push_back(body);
    for (std::size_t k = 0; k < sums.size(); ++k)
      own.push_back(ir::reduce(totals[k], {}, sums[k].op, ir::load(partial.parts[k], {}), sums[k].location, true));
    Stmt one_thread = ir::block(std::move(own));
    for (const ir::Array& part : partial.parts) one_thread = ir::allocate(part, one_thread, part->location);
    before.push_back(threads_loop(t, threads_, one_thread, loop.location));
    // What has not been assigned need not exist, or have a value, when the loop is empty.
    const bool assigned = std::all_of(sums.begin(), sums.end(), [&](const SharedSum& sum) {
      return std::any_of(own_.begin(), own_.end(),
                         [&](const OwnElement& e) { return e.assigned && e.is_target_of(sum); });
    });
    Stmt finish = ir::block(std::move(after));
    if (!assigned) finish = ir::if_then(adds_anything(loop), finish, {}, loop.location);
    before.push_back(finish);
    Stmt all = ir::block(std::move(before));
    for (const ir::Array& total : totals) all = ir::allocate(total, all, total->location);
    return all;
  }

  /// Loops inside one iteration that only sum, each with its sums in registers and wide accesses. A scalar of the block
  /// is no target: where only some iteration of one thread adds to it, the others would add their nothing at that time.
  Stmt with_own_sums(const Stmt& body) const {
    std::vector<OwnElement> own_scalars;
    ir::walk_stmts(body, [&](const Stmt& s) {
      const auto* local = s.as<ir::Allocate>();
      if (local && local->array->shape.empty()) own_scalars.push_back({local->array, {}});
    });
    return ir::rewrite(body, {}, [&](const Stmt& s) -> std::optional<Stmt> {
      const auto* loop = s.as<ir::For>();
      if (!loop || is_parallel_loop(s) || has_few_trips(*loop) || ir::contains_loop(loop->body)) return std::nullopt;
      if (has_load(loop->lower) || has_load(loop->upper)) return std::nullopt;
      const auto sums = shared_sums(program_, s, own_scalars);
      if (!sums || sums->empty()) return std::nullopt;
      const PartialSums own = redirect_sums(*sums, loop->body, "_own");
      std::vector<Stmt> all, add;
      for (std::size_t k = 0; k < sums->size(); ++k) {
        const SharedSum& sum = (*sums)[k];
        all.push_back(ir::assign(own.parts[k], {}, ir::identity_of(sum.op, sum.array->type), sum.location));
        add.push_back(ir::reduce(sum.array, sum.indices, sum.op, ir::load(own.parts[k], {}), sum.location));
      }
      all.push_back(strided_loop(loop->iterator, loop->lower, loop->upper, ir::int_const(0), ir::int_const(1), own.body,
                                 loop->location));
      all.push_back(ir::if_then(ir::binary(BinaryOp::Lt, loop->lower, loop->upper), ir::block(std::move(add)), {},
                                loop->location));
      Stmt result = ir::block(std::move(all));
      for (const ir::Array& part : own.parts) result = ir::allocate(part, result, part->location);
      return result;
    });
  }

  /// False only where no iteration adds: the bounds and what else is known before the loop.
  static Expr adds_anything(const ir::For& loop) {
    Expr result = ir::binary(BinaryOp::Lt, loop.lower, loop.upper);
    Stmt body = loop.body;
    for (const auto* branch = body.as<ir::If>(); branch && !branch->else_body; branch = body.as<ir::If>()) {
      if (has_load(branch->condition) || mentions(branch->condition, loop.iterator)) break;
      result = ir::binary(BinaryOp::And, result, branch->condition);
      body = branch->then_body;
    }
    return result;
  }

  /// Nobody else adds to scalars of the block meanwhile, whether their type has atomic sums of threads or not.
  Stmt single(const Stmt& s) const {
    const Stmt alone = ir::rewrite(s, {}, [&](const Stmt& child) -> std::optional<Stmt> {
      const auto* sum = child.as<ir::Reduce>();
      if (!sum || !sum->atomic || !scalars_.count(sum->array)) return std::nullopt;
      return ir::reduce(sum->array, sum->indices, sum->op, sum->value, sum->location);
    });
    return threads_loop(ir::make_symbol("t"), ir::int_const(1), alone, s->location);
  }

  const Analysed program_;
  std::vector<OwnElement> own_;  // assigned before in the blocks around, and scalars of the block
  const Expr threads_;
  const bool ragged_ = false;
  const RowLoops* const rows_;           // null: none are kept
  std::map<ir::Array, ir::Array> kept_;  // rows, and what the threads have of them
  std::set<ir::Array> scalars_;          // those of the block
};

}  // namespace

std::vector<const ir::For*> short_nest(const Stmt& s) {
  std::vector<const ir::For*> nest;
  std::int64_t inside = 1;
  for (Stmt at = s; is_parallel_loop(at); at = nest.back()->body) {
    const auto* const loop = at.as<ir::For>();
    const auto trips = ir::as_int(loop->upper - loop->lower);
    if (!nest.empty()) {
      if (!trips || *trips < 1 || has_few_trips(*loop) || *trips >= warp_threads || inside * *trips >= warp_threads)
        break;
      inside *= *trips;
    }
    nest.push_back(loop);
  }
  return nest;
}

bool can_spread(const Analysed& program, const Stmt& s) {
  bool found = false;
  ir::walk_stmts(s, [&](const Stmt& child) {
    const auto* loop = child.as<ir::For>();
    if (found || !loop || has_few_trips(*loop)) return;
    found = loop->mode == LoopMode::Parallel || shared_sums(program, child).has_value();
  });
  return found;
}

std::optional<std::int64_t> team_of(const Stmt& body) {
  // One may begin by asking whether there is anything to do.
  const auto* branch = body.as<ir::If>();
  const auto* shared = (branch && !branch->else_body ? branch->then_body : body).as<ir::Allocate>();
  if (!shared || shared->array->shape.empty()) return std::nullopt;
  std::optional<Expr> threads;
  int loops = 0;
  bool all = true;
  const std::function<void(const Stmt&)> look = [&](const Stmt& s) {
    if (!s) return;
    if (is_parallel_loop(s)) {
      const auto& loop = *s.as<ir::For>();
      if (!threads) threads = loop.upper;
      all = all && is_team_loop(loop, *threads) && !contains_parallel_loop(loop.body);
      ++loops;
      return;
    }
    all = all && s.kind() != ir::Kind::Assign && s.kind() != ir::Kind::Reduce;
    ir::for_each_child(s, ir::overloaded{[](const Expr&) {}, [&](const Stmt& child) { look(child); }});
  };
  look(body);
  return all && loops > 1 && *ir::as_int(*threads) <= most_team ? ir::as_int(*threads) : std::nullopt;
}

Stmt strided_loop(const ir::Symbol& i, const Expr& lower, const Expr& upper, const Expr& first, const Expr& stride,
                  Stmt body, const SourceLocation& location) {
  const std::optional<std::int64_t> shift = shift_for_chunks(body, i, lower);
  const std::int64_t width = shift ? chunk_width : 1;
  const Expr wide = ir::int_const(width);
  const ir::Symbol step = ir::make_symbol(i.name + "_step");
  const Expr start = lower - ir::int_const(shift.value_or(0)) + first * wide, distance = stride * wide;
  const Expr trips = ir::binary(BinaryOp::FloorDiv, upper - start + (distance - ir::int_const(1)), distance);
  const Chunk chunk = {start + ir::var(step) * distance, shift.value_or(0) > 0 ? lower : Expr(), upper};
  return ir::for_loop(step, ir::int_const(0), trips, chunk_loop(i, chunk, width, std::move(body), location),
                      LoopMode::Forward, location, {}, {.strided = true});
}

Stmt every_nth(const ir::Symbol& i, const Expr& first, const Expr& upper, const Expr& stride, Stmt body,
               const SourceLocation& location) {
  const ir::Symbol step = ir::make_symbol(i.name + "_step");
  const Expr trips = ir::binary(BinaryOp::FloorDiv, upper - first + (stride - ir::int_const(1)), stride);
  const Chunk one = {first + ir::var(step) * stride, {}, upper};
  return ir::for_loop(step, ir::int_const(0), trips, chunk_loop(i, one, 1, std::move(body), location),
                      LoopMode::Forward, location, {}, {.strided = true});
}

Stmt spread_loops(const Analysed& program, const Stmt& s, const Expr& threads) {
  return settle_scalars(Spreader(program, threads, nullptr).visit(s));
}

Stmt spread_in_one_block(const Analysed& program, const Stmt& s, const Expr& threads) {
  Spreader spreader(program, threads, nullptr);
  spreader.own_all_scalars(s);
  return settle_scalars(spreader.visit(s));
}

Stmt spread_rows(const Analysed& program, const Stmt& s, const Expr& threads, const RowLoops& rows) {
  return settle_scalars(Spreader(program, threads, &rows).visit(s));
}

Stmt spread_ragged(const Analysed& program, const Stmt& s, std::int64_t threads) {
  return settle_scalars(Spreader(program, ir::int_const(threads), nullptr, true).visit(s));
}

}  // namespace loopgrad::transforms
